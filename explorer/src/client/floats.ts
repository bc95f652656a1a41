// Numbers as the server packs them: base64 of 32-bit floats, little-endian.

const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

export function floats(base64: string): Float32Array {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length - (binary.length % 4));
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  if (isLittleEndian) return new Float32Array(bytes.buffer);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 2 }, (_, at) => view.getFloat32(at * 4, true));
}
