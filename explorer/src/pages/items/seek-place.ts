// Places in the hash space, as shares of it and as bounds.
//
// Items are listed in the order of their keys' hashes, which are even, so a place is a share of the items too, about. Hashes
// of version 2 have sixteen bytes and a clear top bit; those of version 1 look different, and are not sought in.

const TOP = 0x40000000;

/** The bound at a share of the hash space; nothing for its beginning. */
export function boundAt(share: number): string | null {
  if (!(share > 0)) return null;
  const bound = Math.min(Math.floor(share * TOP), TOP - 1);
  return bound.toString(16).toUpperCase().padStart(8, "0");
}

/** The share of the hash space below a bound. */
export function fractionOf(bound: string): number {
  if (bound === "" || bound === "FF") return bound === "" ? 0 : 1;
  return Math.min(1, Number.parseInt(bound.slice(0, 8).padEnd(8, "0"), 16) / TOP);
}
