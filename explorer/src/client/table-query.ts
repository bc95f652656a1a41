// SQL over the analytical tables: one request, one answer. Values of rows stay the texts that they came as.

import { elements, members } from "./json";
import { operator } from "./names";
import { send } from "./request";

export interface AnswerColumn {
  name: string;
  type: string;
}

export interface TableAnswer {
  columns: AnswerColumn[];
  /** Rows of JSON tokens. */
  rows: string[][];
  /** Tables with the versions that were read. */
  versions: { table: string; version: number }[];
  elapsedMs: number;
  bytesRead: number | null;
}

export interface TableQuestion {
  text: string;
  database: string;
  /** Values as JSON. */
  parameters: { name: string; value: string }[];
  signal: AbortSignal;
}

export async function askTables({ text, database, parameters, signal }: TableQuestion): Promise<TableAnswer> {
  const parts = [`"query":${JSON.stringify(text)}`];
  if (database !== "") parts.push(`"database":${JSON.stringify(database)}`);
  const values = parameters.map(({ name, value }) => `${JSON.stringify(name)}:${value}`);
  if (values.length > 0) parts.push(`"parameters":{${values.join(",")}}`);
  const reply = await send({ method: "POST", ...operator("analytics/sql"), body: `{${parts.join(",")}}`, signal });
  return readTableAnswer(reply.text, reply.elapsedMs);
}

export function readTableAnswer(text: string, waitedMs: number): TableAnswer {
  const found: Record<string, unknown> = {};
  let rows: string[][] = [];
  for (const { name, start, end } of members(text)) {
    if (name !== "rows") found[name] = JSON.parse(text.slice(start, end));
    else
      rows = elements(text, start).map((row) =>
        elements(text, row.start).map((value) => text.slice(value.start, value.end)),
      );
  }
  const answer = found as {
    columns?: AnswerColumn[];
    snapshot?: Record<string, { version?: number }>;
    statistics?: { elapsedMs?: number; bytesRead?: number };
  };
  return {
    columns: answer.columns ?? [],
    rows,
    versions: Object.entries(answer.snapshot ?? {}).map(([table, { version }]) => ({ table, version: version ?? 0 })),
    elapsedMs: answer.statistics?.elapsedMs ?? waitedMs,
    bytesRead: answer.statistics?.bytesRead ?? null,
  };
}

/** The place that a message names, as an offset into the text. */
export function placeIn(text: string, message: string): number | null {
  const found = /line (\d+), column (\d+)/.exec(message);
  if (!found) return null;
  const lines = text.split("\n");
  const line = Number(found[1]) - 1;
  if (line >= lines.length) return null;
  const before = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  // Columns count characters; offsets count UTF-16 units.
  const units = [...(lines[line] ?? "")].slice(0, Number(found[2]) - 1).join("").length;
  return before + units;
}

/** `$names` in a statement, outside of texts, quoted names and comments. */
export function tableParametersOf(text: string): string[] {
  const bare = text.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[^]*?\*\//g, " ");
  return [...new Set([...bare.matchAll(/[$@](\w+)/g)].map(([, name]) => name as string))];
}
