// The items of a file, one text after the other, without holding the file: JSON lines, a JSON array, or CSV with a header.

import { skipSpace, skipValue } from "../../client/json";
import { check } from "../../client/json-check";
import { CsvReader, type CsvRow } from "../../kit/csv-read";

export interface FileText {
  text: string;
  /** How much of the file has been read. */
  share: number;
}

export interface CsvRules {
  /** Bare cells that are JSON (numbers, true, false, null, arrays, objects) are taken as such; else all are strings. */
  typed: boolean;
}

export const isCsv = (name: string): boolean => /\.csv$/i.test(name);

/** Elements of one JSON array, or one value after another. */
export async function* jsonTexts(file: Blob): AsyncGenerator<FileText> {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let readUnits = 0;
  let isArray: boolean | null = null;
  for (;;) {
    const { value, done } = await reader.read();
    held += value ?? "";
    readUnits += value?.length ?? 0;
    let at = 0;
    for (;;) {
      at = skipSpace(held, at);
      if (at >= held.length) break;
      if (isArray === null) isArray = held[at] === "[";
      const unit = held[at];
      if (isArray && (unit === "[" || unit === "," || unit === "]")) {
        at++;
        continue;
      }
      const end = endOf(held, at, done);
      if (end === null) break;
      yield { text: held.slice(at, end), share: Math.min(1, (readUnits - held.length + end) / Math.max(1, file.size)) };
      at = end;
    }
    held = held.slice(at);
    if (done) return;
  }
}

/** Where a value ends, or nothing while more of it may come. What is no object goes to the end of its line. */
function endOf(held: string, at: number, isLast: boolean): number | null {
  if (held[at] === "{") {
    try {
      return skipValue(held, at);
    } catch {
      if (!isLast) return null;
    }
  }
  const line = held.indexOf("\n", at);
  return line >= 0 ? line : isLast ? held.length : null;
}

/** Rows of a CSV file as objects by the names of its first row. */
export async function* csvTexts(file: Blob, rules: CsvRules): AsyncGenerator<FileText> {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  const csv = new CsvReader();
  let names: string[] | null = null;
  let readUnits = 0;
  for (;;) {
    const { value, done } = await reader.read();
    readUnits += value?.length ?? 0;
    for (const row of done ? csv.end() : csv.push(value ?? "")) {
      if (names === null) names = namesOf(row);
      else yield { text: itemOf(names, row, rules), share: Math.min(1, readUnits / Math.max(1, file.size)) };
    }
    if (done) return;
  }
}

function namesOf(row: CsvRow): string[] {
  const names = row.cells.map(({ text }) => text.trim());
  const odd = names.find((name, at) => name === "" || names.indexOf(name) !== at);
  if (odd !== undefined) {
    throw new SyntaxError(
      odd === "" ? "a column has no name in the first row" : `two columns have the name "${odd}" in the first row`,
    );
  }
  return names;
}

/** Empty bare cells are left out. Exports have their formulas disarmed with an apostrophe, which stays what it is: text. */
export function itemOf(names: string[], row: CsvRow, rules: CsvRules): string {
  if (row.cells.length > names.length) return row.cells.map(({ text }) => text).join(",");
  const parts: string[] = [];
  row.cells.forEach(({ text, isQuoted }, at) => {
    if (text === "" && !isQuoted) return;
    const name = names[at] ?? "";
    const isText = name === "id" || !rules.typed || isTextCell(text, isQuoted);
    parts.push(`${JSON.stringify(name)}:${isText ? JSON.stringify(text) : text.trim()}`);
  });
  return `{${parts.join(",")}}`;
}

/** Objects and arrays need quotes for their commas; a quoted number is a text that looks like one. */
function isTextCell(text: string, isQuoted: boolean): boolean {
  const first = text.trim()[0] ?? "";
  const mayBeJson = isQuoted ? "{[".includes(first) : /[-\d{[tfn]/.test(first);
  return first === "" || !mayBeJson || check(text.trim()).some(({ isError }) => isError);
}
