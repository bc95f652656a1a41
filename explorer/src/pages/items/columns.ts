// Which columns a page of items shows: id, the partition key, then members by how often they occur.

import { areNumbers, members, valueAt } from "../../client/json";
import { pathNames } from "../../client/key";

const SAMPLED_ROWS = 60;
const COLUMNS_MAX = 9;
const HIDDEN = new Set(["_rid", "_self", "_etag", "_attachments", "_ts"]);

export interface ItemColumn {
  name: string;
  path: string[];
  isKey: boolean;
  isNumber: boolean;
}

export function columnsOf(rows: string[], keyPaths: string[]): ItemColumn[] {
  const sample = rows.slice(0, SAMPLED_ROWS).filter((row) => row[0] === "{");
  const column = (name: string, path: string[], isKey = false): ItemColumn => ({
    name,
    path,
    isKey,
    isNumber: areNumbers(sample.map((row) => valueAt(row, path))),
  });
  const columns = [column("id", ["id"])];
  for (const path of keyPaths) if (path !== "/id") columns.push(column(path, pathNames(path), true));
  const counts = new Map<string, number>();
  for (const row of sample) for (const { name } of members(row)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const taken = new Set([
    "id",
    ...keyPaths
      .map((path) => pathNames(path))
      .filter(({ length }) => length === 1)
      .map(([name]) => name),
  ]);
  const byCount = [...counts].filter(([name]) => !HIDDEN.has(name) && !taken.has(name));
  byCount.sort(([, left], [, right]) => right - left);
  for (const [name] of byCount.slice(0, COLUMNS_MAX - columns.length)) columns.push(column(name, [name]));
  // A moment is told as one, not as a number.
  columns.push({ ...column("_ts", ["_ts"]), isNumber: false });
  return columns;
}
