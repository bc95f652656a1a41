// The state of an analytical table in one sentence, and the reasons why values have no column.

import type { TableReport } from "../../client/analytics";
import { integer, percent, plural } from "../../kit/format";

export interface StateWords {
  title: string;
  words: string;
  tone: "good" | "warn" | "bad";
}

export function stateWords(report: TableReport): StateWords {
  const { state, reason, lag, counts } = report;
  const done = report.percent === null ? "" : `, ${integer(report.percent)} %`;
  const title = state[0]?.toUpperCase() + state.slice(1);
  switch (state) {
    case "following":
      if (lag.changes === 0) return { title, words: "the table has every change.", tone: "good" };
      return {
        title,
        words: `${plural(lag.changes, "change")} behind, for ${plural(lag.seconds, "second")}.`,
        tone: "good",
      };
    case "building":
      return {
        title,
        words: `the first copy is under way${done}. Readers see the table once it is complete.`,
        tone: "warn",
      };
    case "rebuilding":
      return { title, words: `a new copy is under way${done}. Readers see the one before until then.`, tone: "warn" };
    case "waiting":
      return { title, words: `${reason ?? "for the server"}. Following resumes by itself.`, tone: "warn" };
    case "paused":
      return { title, words: `${plural(lag.changes, "change")} behind. Readers see the last version.`, tone: "warn" };
    case "stopped":
      return { title, words: "this server follows no tables. Readers see the last version.", tone: "warn" };
    case "closed":
      return {
        title,
        words: "the files stay readable for 7 days. The table continues if the store is enabled by then.",
        tone: "warn",
      };
    case "failed":
      return { title, words: `${reason ?? "the log of the server has the reason"}. Rebuild the table.`, tone: "bad" };
    default:
      return { title, words: counts.lostHistory > 0 ? "history is incomplete." : "", tone: "warn" };
  }
}

const REASONS: Record<string, string> = {
  type: "another type than the column's",
  number: "a number that the column's type lacks",
  spelling: "a second spelling of a name in one object",
  reserved: "a name of the table's own columns",
  name: "an empty or too long name",
  properties: "more properties than a table may have",
  levels: "too many levels",
  empty: "empty objects and arrays without a column",
  kind: "a kind of value without a column type",
  size: "a property with very many such values",
};

/** Values without a column by reason, the most frequent first. */
export function restReasons(counts: Record<string, number>): { reason: string; words: string; values: number }[] {
  return Object.entries(counts)
    .map(([reason, values]) => ({ reason, words: REASONS[reason] ?? reason, values }))
    .sort((left, right) => right.values - left.values);
}

/** The table's size against the JSON text of the items. */
export const shareWords = (sizeBytes: number, jsonBytes: number): string =>
  jsonBytes === 0 ? "" : `, ${percent(sizeBytes / jsonBytes)} of the items as JSON`;
