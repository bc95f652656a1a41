// Which columns a page of items shows: id, the partition key, then members by how often they occur.

import { members } from "../../client/json";
import { pathNames } from "../../client/key";

const SAMPLED_ROWS = 60;
const COLUMNS_MAX = 9;
const HIDDEN = new Set(["_rid", "_self", "_etag", "_attachments", "_ts"]);

export interface ItemColumn {
  name: string;
  path: string[];
  isKey: boolean;
}

export function columnsOf(rows: string[], keyPaths: string[]): ItemColumn[] {
  const columns: ItemColumn[] = [{ name: "id", path: ["id"], isKey: false }];
  for (const path of keyPaths) if (path !== "/id") columns.push({ name: path, path: pathNames(path), isKey: true });
  const counts = new Map<string, number>();
  for (const row of rows.slice(0, SAMPLED_ROWS)) {
    if (row[0] !== "{") continue;
    for (const { name } of members(row)) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const taken = new Set([
    "id",
    ...keyPaths
      .map((path) => pathNames(path))
      .filter(({ length }) => length === 1)
      .map(([name]) => name),
  ]);
  const byCount = [...counts].filter(([name]) => !HIDDEN.has(name) && !taken.has(name));
  byCount.sort(([, left], [, right]) => right - left);
  for (const [name] of byCount.slice(0, COLUMNS_MAX - columns.length))
    columns.push({ name, path: [name], isKey: false });
  columns.push({ name: "_ts", path: ["_ts"], isKey: false });
  return columns;
}
