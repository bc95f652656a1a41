// Figures of a plan's boxes, in words. Pure, so it is tested.

import type { Figures } from "../../client/query";
import { bytes, integer, plural } from "../../kit/format";

/** Behind a sum over partitions. */
export const together = (partitions: number): string => (partitions > 1 ? ` in ${partitions} partitions together` : "");

/** A figure that was not counted is "–". */
export function figureWords(figures: Figures): string {
  const parts: string[] = [];
  const count = (value: number | null) => (value === null ? "–" : integer(value));
  if (figures.rowsIn !== null) parts.push(`${count(figures.rowsIn)} → ${count(figures.rowsOut)} rows`);
  else parts.push(`${count(figures.rowsOut)} rows`);
  if (figures.postings) parts.push(`${integer(figures.postings)} postings`);
  if (figures.items) parts.push(plural(figures.items, "item"));
  if (figures.bytes) parts.push(bytes(figures.bytes));
  return parts.join(" · ");
}
