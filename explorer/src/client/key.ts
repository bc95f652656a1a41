// Partition keys as clients name them: a JSON array, made of an item's own tokens, so that no number changes.

import { asciiJson, valueAt } from "./json";

/** `/a/"b/c"` as the names a, b/c. */
export function pathNames(path: string): string[] {
  const names: string[] = [];
  for (const found of path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|([^/]*))/g)) {
    names.push(found[1] === undefined ? (found[2] ?? "") : found[1].replace(/\\(.)/g, "$1"));
  }
  return names;
}

/** The key of an item by its text. A level that the item lacks is `{}`. */
export function keyOf(item: string, paths: string[]): string {
  const parts = paths.map((path) => {
    const token = valueAt(item, pathNames(path));
    return token === undefined || token[0] === "{" || token[0] === "[" ? "{}" : token;
  });
  return `[${parts.join(",")}]`;
}

export function keyHeader(key: string): Record<string, string> {
  return { "x-ms-documentdb-partitionkey": asciiJson(key) };
}

/** What a person typed as a key: JSON array, JSON value, or bare text. Nothing for nothing. */
export function readKey(text: string): string | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  try {
    const value: unknown = JSON.parse(trimmed);
    return Array.isArray(value) ? trimmed : `[${trimmed}]`;
  } catch {
    return `[${JSON.stringify(trimmed)}]`;
  }
}
