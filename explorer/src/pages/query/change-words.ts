// A change of a figure, in words.

import { percent } from "../../kit/format";

/** How much less or more: −40 %, +10 %, or nothing where there is nothing to compare with. */
export function changeWords(before: number, after: number): string {
  if (before === 0) return "";
  const change = after / before - 1;
  if (Math.abs(change) < 0.005) return "the same";
  return `${change > 0 ? "+" : "−"}${percent(Math.abs(change))}`;
}
