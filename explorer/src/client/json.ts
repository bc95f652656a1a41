// JSON as text: rows and cells found, text laid out, mistakes told by their place; numbers are never built.
//
// Items come to the screen and go back as the server wrote them. `JSON.parse` would round what a double cannot hold,
// so this scanner finds where values begin and end and leaves them alone.

export interface Span {
  start: number;
  end: number;
}

export interface Member extends Span {
  /** Decoded. */
  name: string;
}

const isSpace = (code: number) => code === 32 || code === 10 || code === 13 || code === 9;

export function skipSpace(text: string, at: number): number {
  while (at < text.length && isSpace(text.charCodeAt(at))) at++;
  return at;
}

/** The place behind a string that begins at `at`. */
function skipString(text: string, at: number): number {
  let end = at;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) throw new SyntaxError("a string does not end");
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 92) slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}

/** The place behind a value that begins at `at`. Well-formed text is taken for granted. */
export function skipValue(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return skipString(text, at);
  if (first !== "{" && first !== "[") {
    let end = at;
    while (end < text.length && !/[\s,\]}]/.test(text[end] as string)) end++;
    return end;
  }
  let depth = 0;
  for (let place = at; place < text.length; place++) {
    const code = text.charCodeAt(place);
    if (code === 34) place = skipString(text, place) - 1;
    else if (code === 123 || code === 91) depth++;
    else if ((code === 125 || code === 93) && --depth === 0) return place + 1;
  }
  throw new SyntaxError("an object or array does not end");
}

/** The members of an object that begins at `at`, in their order, duplicates included. */
export function members(text: string, at = 0): Member[] {
  const found: Member[] = [];
  let place = skipSpace(text, skipSpace(text, at) + 1);
  while (place < text.length && text[place] !== "}") {
    const nameEnd = skipString(text, place);
    const name = decodeString(text.slice(place, nameEnd));
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = skipValue(text, start);
    found.push({ name, start, end });
    place = skipSpace(text, end);
    if (text[place] === ",") place = skipSpace(text, place + 1);
  }
  return found;
}

/** The elements of an array that begins at `at`. */
export function elements(text: string, at = 0): Span[] {
  const found: Span[] = [];
  let place = skipSpace(text, skipSpace(text, at) + 1);
  while (place < text.length && text[place] !== "]") {
    const end = skipValue(text, place);
    found.push({ start: place, end });
    place = skipSpace(text, end);
    if (text[place] === ",") place = skipSpace(text, place + 1);
  }
  return found;
}

/** The rows of a feed's answer: the elements of its member `name`, as texts. */
export function rowsOf(text: string, name = "Documents"): string[] {
  const list = members(text).find((member) => member.name === name);
  return list ? elements(text, list.start).map(({ start, end }) => text.slice(start, end)) : [];
}

/** The text of the value at a path of member names, or nothing. */
export function valueAt(text: string, path: string[]): string | undefined {
  let start = skipSpace(text, 0);
  let end = text.length;
  for (const name of path) {
    if (text[start] !== "{") return undefined;
    const member = members(text, start).findLast((member) => member.name === name);
    if (!member) return undefined;
    ({ start, end } = member);
  }
  return text.slice(start, end).trim();
}

/** The cells of a row: the tokens of its members, or of the row itself where it is no object. */
export function cells(row: string): Map<string, string> {
  const found = new Map<string, string>();
  if (row[0] !== "{") return found.set("", row);
  for (const { name, start, end } of members(row)) found.set(name, row.slice(start, end));
  return found;
}

/** A string token's text; other tokens are left as they are. */
/** Whether all that are there are numbers: their column stands to the right. */
export function areNumbers(tokens: (string | undefined)[]): boolean {
  const told = tokens.filter((token) => token !== undefined);
  return told.length > 0 && told.every((token) => /^[-\d]/.test(token));
}

export function decodeString(token: string): string {
  if (token[0] !== '"') return token;
  if (!token.includes("\\")) return token.slice(1, -1);
  return JSON.parse(token) as string;
}

/** JSON for a header, which holds ASCII only. */
export function asciiJson(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Lays JSON out by lines, token by token: the tokens come out as they went in. */
export function pretty(text: string): string {
  return layOut(text, "\n", "  ", ": ");
}

/** The same tokens without any space between them. */
export function compact(text: string): string {
  return layOut(text, "", "", ":");
}

function layOut(text: string, line: string, indent: string, colon: string): string {
  const parts: string[] = [];
  let depth = 0;
  let place = 0;
  const newLine = () => parts.push(line, indent.repeat(depth));
  while ((place = skipSpace(text, place)) < text.length) {
    const unit = text[place] as string;
    if (unit === "{" || unit === "[") {
      const next = skipSpace(text, place + 1);
      if (text[next] === "}" || text[next] === "]") {
        parts.push(unit, text[next] as string);
        place = next + 1;
        continue;
      }
      parts.push(unit);
      depth++;
      newLine();
    } else if (unit === "}" || unit === "]") {
      depth--;
      newLine();
      parts.push(unit);
    } else if (unit === ",") {
      parts.push(unit);
      newLine();
    } else if (unit === ":") {
      parts.push(colon);
    } else {
      const end = Math.max(skipValue(text, place), place + 1);
      parts.push(text.slice(place, end));
      place = end;
      continue;
    }
    place++;
  }
  return parts.join("");
}
