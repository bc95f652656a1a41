// SQL over analytical tables for editors: colours, and completion of tables, columns, members and words.

import type { Completion, CompletionContext, CompletionResult, CompletionSource } from "@codemirror/autocomplete";
import { LanguageSupport, StreamLanguage, type StringStream } from "@codemirror/language";
import type { NamedTable } from "../client/analytics";

const KEYWORDS = (
  "ALL AND AS ASC BETWEEN BY CASE CAST CROSS DESC DESCRIBE DISTINCT ELSE END EXCEPT EXISTS EXPLAIN FILTER FROM FULL GROUP HAVING IN INNER " +
  "INTERSECT INTERVAL IS JOIN LEFT LIKE LIMIT NOT NULL NULLS FIRST LAST OFFSET ON OR ORDER OVER PARTITION QUALIFY RIGHT ROLLUP SELECT SHOW " +
  "TABLES THEN UNION UNNEST USING VALUES WHEN WHERE WITH true false"
).split(" ");
const FUNCTIONS = (
  "abs approx_distinct array_has avg cardinality ceil coalesce count date_part date_trunc first_value floor lag lead left length lower max " +
  "median min now nullif rank regexp_like replace right round row_number split_part stddev string_agg strpos substr sum to_timestamp trim upper"
).split(" ");
const keywords = new Set(KEYWORDS.map((word) => word.toUpperCase()));
const functions = new Set(FUNCTIONS);

function token(stream: StringStream): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match("--")) {
    stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
  if (stream.match(/^"(?:[^"]|"")*"?/)) return "variableName";
  if (stream.match(/^\d+(?:\.\d+)?(?:e[+-]?\d+)?/i)) return "number";
  if (stream.match(/^[$@]\w+/)) return "variableName.special";
  const afterDot = stream.pos > 0 && stream.string[stream.pos - 1] === ".";
  if (!stream.match(/^[\p{L}_][\p{L}\p{N}_]*/u)) {
    stream.next();
    return null;
  }
  const name = stream.current();
  if (afterDot) return "propertyName";
  if (functions.has(name.toLowerCase()) && stream.match(/^\s*\(/, false)) return "variableName.function";
  return keywords.has(name.toUpperCase()) ? "keyword" : "variableName";
}

const language = StreamLanguage.define({
  name: "tables",
  token,
  languageData: { commentTokens: { line: "--" }, closeBrackets: { brackets: ["(", "[", "'", '"'] } },
});

export const tables = (): LanguageSupport => new LanguageSupport(language);

/** A name as a statement writes it. */
export const written = (name: string): string =>
  /^[A-Za-z_]\w*$/.test(name) && !keywords.has(name.toUpperCase()) ? name : `"${name.replace(/"/g, '""')}"`;

/** Members of a type such as `struct<city string, geo struct<lat double>>`, also below lists. */
export function membersOf(type: string): { name: string; type: string }[] {
  const inner = /^list<([^]*)>$/.exec(type)?.[1];
  if (inner !== undefined) return membersOf(inner);
  const body = /^struct<([^]*)>$/.exec(type)?.[1];
  if (body === undefined) return [];
  const found: string[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at <= body.length; at++) {
    if (body[at] === "<") depth++;
    else if (body[at] === ">") depth--;
    else if (at === body.length || (body[at] === "," && depth === 0)) {
      found.push(body.slice(from, at).trim());
      from = at + 1;
    }
  }
  return found.flatMap((field) => {
    const parts = /^(\S+)[ :]+([^]*)$/.exec(field);
    return parts ? [{ name: parts[1] as string, type: parts[2] as string }] : [];
  });
}

const NAME = /^"(?:[^"]|"")*"$/;
const plain = (name: string) => (NAME.test(name) ? name.slice(1, -1).replace(/""/g, '"') : name);
const PART = '(?:"(?:[^"]|"")*"|[\\p{L}_][\\p{L}\\p{N}_]*)';

/** Types below the names that a statement gives: aliases, tables and elements of lists. */
export function namesIn(text: string, known: NamedTable[], database: string): Map<string, string> {
  const named = new Map<string, string>();
  const source = new RegExp(`(?:\\bFROM|\\bJOIN|,)\\s+(${PART})(?:\\.(${PART}))?(?:\\s+(?:AS\\s+)?(${PART}))?`, "giu");
  for (const [, first = "", second, alias] of text.matchAll(source)) {
    const [db, coll] = second === undefined ? [database, plain(first)] : [plain(first), plain(second)];
    const table = known.find((one) => one.container === coll && (db === "" || one.database === db));
    if (!table) continue;
    const type = `struct<${table.columns.map(({ name, type }) => `${name} ${type}`).join(", ")}>`;
    const isAlias = alias !== undefined && !keywords.has(alias.toUpperCase());
    named.set(isAlias ? plain(alias) : coll, type);
  }
  const lists = new RegExp(`\\bUNNEST\\s*\\(\\s*(${PART}(?:\\.${PART})*)\\s*\\)\\s+(?:AS\\s+)?(${PART})`, "giu");
  for (const [, list = "", alias = ""] of text.matchAll(lists)) {
    const type = typeOf(pathOf(list), named);
    if (type !== null) named.set(plain(alias), /^list<([^]*)>$/.exec(type)?.[1] ?? "");
  }
  return named;
}

const pathOf = (text: string): string[] => (text.match(new RegExp(PART, "gu")) ?? []).map(plain);

/** The type of a path with dots, from an alias or from a column. */
function typeOf(path: string[], named: Map<string, string>): string | null {
  const step = (type: string | undefined, name: string) => membersOf(type ?? "").find((one) => one.name === name)?.type;
  const [first = "", ...rest] = path;
  const begin =
    named.get(first) ?? [...named.values()].map((type) => step(type, first)).find((type) => type !== undefined);
  const found = rest.reduce<string | undefined>(step, begin);
  return found ?? null;
}

const words: Completion[] = [
  ...KEYWORDS.map((label) => ({ label, type: "keyword" })),
  ...FUNCTIONS.map((label) => ({ label, type: "function", apply: `${label}(` })),
];

/** Completes names of tables and their columns, members behind a dot, and words. */
export function completeTables(read: () => Promise<NamedTable[]>, database: () => string): CompletionSource {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const known = await read();
    const named = namesIn(context.state.doc.toString(), known, database());
    const property = ({ name, type }: { name: string; type: string }): Completion => ({
      label: name,
      detail: type.length > 40 ? `${type.slice(0, 39)}…` : type,
      type: "property",
      apply: written(name),
    });
    const path = context.matchBefore(new RegExp(`${PART}(?:\\.${PART})*\\.[\\p{L}\\p{N}_]*`, "u"));
    if (path) {
      const dot = path.text.lastIndexOf(".");
      const parts = pathOf(path.text.slice(0, dot));
      const containers = parts.length === 1 ? known.filter(({ database }) => database === parts[0]) : [];
      const options = [
        ...containers.map(({ container }) => ({ label: container, type: "class", apply: written(container) })),
        ...membersOf(typeOf(parts, named) ?? "").map(property),
      ];
      return options.length > 0 ? { from: path.from + dot + 1, options, validFor: /^[\p{L}\p{N}_]*$/u } : null;
    }
    const word = context.matchBefore(/[\p{L}_][\p{L}\p{N}_]*/u);
    if (!word && !context.explicit) return null;
    const columns = [...named.values()].flatMap(membersOf).map(property);
    const all = known.map(({ database: db, container }) => {
      const label = db === database() ? written(container) : `${written(db)}.${written(container)}`;
      return { label, type: "class" };
    });
    const aliases = [...named.keys()].map((label) => ({ label, type: "variable" }));
    const options = [...all, ...columns, ...aliases, ...words];
    return { from: word?.from ?? context.pos, options, validFor: /^[\p{L}\p{N}_]*$/u };
  };
}
