// Signing requests as the SDKs do: HMAC-SHA256 over verb, resource type, resource link and date.
//
// The key's text becomes a CryptoKey that can sign and can not be exported, and is then forgotten. What is
// signed is the text of `crates/signature`: verb, type and date in lower case, the link as it is.

/** The emulator's public key, which servers take while only this machine can reach them. */
export const WELL_KNOWN_KEY =
  "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

export interface Payload {
  verb: string;
  resourceType: string;
  link: string;
  date: string;
}

export function signedText(payload: Payload): string {
  const { verb, resourceType, link, date } = payload;
  return `${verb.toLowerCase()}\n${resourceType.toLowerCase()}\n${link}\n${date.toLowerCase()}\n\n`;
}

/** Fails for what is no base64 text. */
export async function importKey(text: string): Promise<CryptoKey> {
  const bytes = bytesOf(text.trim());
  if (bytes.length === 0) throw new Error("an account key is not empty");
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
}

/** The value of the `authorization` header, percent-encoded. */
export async function authorization(key: CryptoKey, payload: Payload): Promise<string> {
  const text = new TextEncoder().encode(signedText(payload));
  const signature = new Uint8Array(await crypto.subtle.sign("HMAC", key, text));
  const sig = btoa(String.fromCharCode(...signature));
  return encodeURIComponent(`type=master&ver=1.0&sig=${sig}`);
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  let binary: string;
  try {
    binary = atob(base64);
  } catch {
    throw new Error("that is not an account key: keys are base64 text, such as C2y6…==");
  }
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}
