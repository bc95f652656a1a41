// Kinds of findings and their times, in words.

import type { Finding } from "../client/account";
import { clock, timeOf } from "../kit/format";

const WORDS: Record<string, string> = {
  singleHotKey: "Single hot key",
  sequentialKeys: "Sequential keys",
  hotRange: "Hot range",
  scans: "Scans",
  throughputTooLow: "Throughput too low",
  storageSkew: "Storage skew",
  nothingWrong: "All is well",
};

export const findingWords = (kind: string): string => WORDS[kind] ?? kind;

/** Since when a finding holds, or how long ago it ended; nothing where it has no time. */
export function whenWords(finding: Pick<Finding, "since" | "until">, now: number): string {
  if (finding.until !== undefined && finding.until !== null) {
    return `cured ${secondsWords(now - timeOf(finding.until).getTime())} ago`;
  }
  if (finding.since === undefined || finding.since === null) return "";
  return `since ${clock(timeOf(finding.since))}`;
}

/** `24 s`, `10 min`, `6 h`, `28 d`. */
export function secondsWords(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const units: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const [length, unit] = units.find(([length]) => seconds >= 2 * length || length === 1) as [number, string];
  return `${Math.round(seconds / length)} ${unit}`;
}
