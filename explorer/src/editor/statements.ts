// A text of queries as people write it: statements between `;`, and the parameters that they name.

export interface Statement {
  from: number;
  text: string;
}

/** Statements are separated by `;` outside of strings and comments. A comment begins with `--`: the language has no others. */
export function statements(text: string): Statement[] {
  const found: Statement[] = [];
  let from = 0;
  const pattern = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|--[^\n]*|;/g;
  for (const match of text.matchAll(pattern)) {
    if (match[0] !== ";") continue;
    found.push({ from, text: text.slice(from, match.index) });
    from = match.index + 1;
  }
  found.push({ from, text: text.slice(from) });
  return found.filter((statement) => statement.text.trim() !== "");
}

export function statementAt(text: string, cursor: number): Statement | null {
  const all = statements(text);
  return all.find((statement) => cursor <= statement.from + statement.text.length) ?? all.at(-1) ?? null;
}

/** `@names` in a query, outside of strings and comments. */
export function parametersOf(text: string): string[] {
  const bare = text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|--[^\n]*/g, " ");
  return [...new Set(bare.match(/@\w+/g) ?? [])];
}
