// What people paste to sign in: a key, a connection string, or a resource token.

export interface Pasted {
  /** An account key, or nothing where a resource token was pasted. */
  key?: string;
  token?: string;
  /** The endpoint that a connection string named. */
  endpoint?: string;
}

/** Reads what people paste: a key, a connection string, or a resource token. */
export function readPasted(text: string): Pasted {
  const trimmed = text.trim();
  const decoded = /^type%3d/i.test(trimmed) ? decodeURIComponent(trimmed) : trimmed;
  if (/^type=resource&/i.test(decoded)) return { token: trimmed };
  if (!/accountkey\s*=/i.test(trimmed)) return { key: trimmed };
  const found: Pasted = {};
  for (const part of trimmed.split(";")) {
    const at = part.indexOf("=");
    if (at < 0) continue;
    const name = part.slice(0, at).trim().toLowerCase();
    const value = part.slice(at + 1).trim();
    if (name === "accountkey") found.key = value;
    if (name === "accountendpoint") found.endpoint = value;
  }
  return found;
}
