// The same question in the language of the NoSQL API, where it is one: a SELECT over one table without lists and windows.

import type { NamedTable } from "../../client/analytics";

export interface Suggestion {
  database: string;
  container: string;
  text: string;
}

const WORDS = new Set(
  "select distinct from where and or not in between like group by order asc desc limit offset as is null true false case when then else end".split(
    " ",
  ),
);
/** Functions by the name that the NoSQL API has for them. */
const RENAMED: Record<string, string> = {
  length: "LENGTH",
  character_length: "LENGTH",
  lower: "LOWER",
  upper: "UPPER",
  abs: "ABS",
  ceil: "CEILING",
  floor: "FLOOR",
  round: "ROUND",
  count: "COUNT",
  sum: "SUM",
  avg: "AVG",
  min: "MIN",
  max: "MAX",
};
const TOKEN = /'(?:[^']|'')*'|"(?:[^"]|"")*"|[$@]\w+|\d+(?:\.\d+)?|[\p{L}_][\p{L}\p{N}_]*|<>|!=|<=|>=|\|\||\s+|[^]/gu;

/** Nothing where the language has no such question. */
export function suggestionOf(text: string, tables: NamedTable[], database: string): Suggestion | null {
  const from =
    /^\s*(SELECT\s[^]*?)\sFROM\s+(\S+?)(?:\s+(?:AS\s+)?([A-Za-z_]\w*))?(\s+(?:WHERE|GROUP|ORDER|LIMIT)\s[^]*)?\s*$/i.exec(
      text.replace(/;\s*$/, ""),
    );
  if (!from) return null;
  const [, select = "", name = "", alias, rest = ""] = from;
  if (alias && WORDS.has(alias.toLowerCase())) return null;
  const parts = name.replace(/"/g, "").split(".");
  const [db, coll] = parts.length === 2 ? parts : [database, parts[0]];
  const table = tables.find((one) => one.container === coll && one.database === db);
  if (!table) return null;
  const columns = new Set(table.columns.map((column) => column.name).concat("id", "_ts"));
  const own = new Set([alias, coll].filter((one) => one !== undefined));
  const translated = translate(`${select} FROM c${rest}`, columns, own);
  return translated === null ? null : { database: table.database, container: table.container, text: translated };
}

function translate(text: string, columns: Set<string>, own: Set<string>): string | null {
  const tokens = text.match(TOKEN) ?? [];
  let out = "";
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] as string;
    const previous = out.trimEnd().at(-1);
    const lower = token.toLowerCase();
    const isCall = /^\s*\($/.test(
      (tokens[at + 1] ?? "") + (tokens[at + 1]?.trim() === "" ? (tokens[at + 2] ?? "") : ""),
    );
    if (token[0] === "'") {
      if (token.includes("''")) return null;
      out += token;
    } else if (token[0] === '"') {
      if (previous === ".") out = `${out.trimEnd().slice(0, -1)}[${token}]`;
      else if (columns.has(token.slice(1, -1))) out += `c[${token}]`;
      else return null;
    } else if (token[0] === "$") out += `@${token.slice(1)}`;
    else if (token === "<>") out += "!=";
    else if (!/^[\p{L}_]/u.test(token)) out += token;
    else if (isCall && !WORDS.has(lower)) {
      const right = RENAMED[lower];
      if (right === undefined) return null;
      out += right;
    } else if (previous === ".") out += token;
    else if (/\bAS\s*$/i.test(out)) out += token;
    else if (own.has(token)) out += "c";
    else if (columns.has(token)) out += `c.${token}`;
    else if (token === "c" || WORDS.has(lower)) out += token;
    else return null;
  }
  if (/\bIS\s+(?:NOT\s+)?NULL\b/i.test(out)) return null;
  if (/\bGROUP BY \d|\bORDER BY \d|\bCASE\b/i.test(out)) return null;
  const limited = /\bLIMIT\s+(\d+)\s*$/i.exec(out);
  if (limited) out = out.slice(0, limited.index).trimEnd() + ` OFFSET 0 LIMIT ${limited[1]}`;
  // The language counts a value, and has no asterisk inside of a function.
  return out
    .replace(/COUNT\s*\(\s*\*\s*\)/g, "COUNT(1)")
    .replace(/\s+/g, " ")
    .trim();
}
