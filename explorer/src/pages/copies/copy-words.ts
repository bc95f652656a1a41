// Copies in words: states of indexes, lags, the arrows of the graph, and the consequences of orders.

import type { IndexReport, IndexOrder } from "../../client/indexes";
import type { Projection } from "../../client/projections";
import { integer, plural } from "../../kit/format";

export type Tone = "good" | "warn" | "bad";

export interface StateWords {
  title: string;
  words: string;
  tone: Tone;
}

const STATUSES = new Map<string, StateWords>([
  ["Active", { title: "Active", words: "", tone: "good" }],
  ["Initializing", { title: "Initializing", words: "the build begins soon", tone: "warn" }],
  ["InitialBuildAfterCreate", { title: "Building", words: "can be read, and lacks items", tone: "warn" }],
  ["InitialBuildAfterRestore", { title: "Building anew", words: "can be read meanwhile", tone: "warn" }],
  ["Incomplete", { title: "Incomplete", words: "some items could not be written", tone: "warn" }],
  ["Paused", { title: "Paused", words: "changes wait in the log of the source", tone: "warn" }],
  ["Failed", { title: "Failed", words: "rebuild or delete it", tone: "bad" }],
]);

/** A status that a newer server has is shown as it is. */
export function indexState({ status, reason, percent }: IndexReport): StateWords {
  const known = STATUSES.get(status) ?? { title: status, words: "", tone: "warn" };
  const done = percent === null ? "" : `, ${integer(percent)} %`;
  return { title: known.title + done, words: reason ?? known.words, tone: known.tone };
}

export function projectionTone(state: string): Tone {
  if (state === "running") return "good";
  return state === "failed" ? "bad" : "warn";
}

export const lagWords = ({ changes, seconds }: { changes: number; seconds: number }): string =>
  `${plural(changes, "change")}, ${integer(seconds)} s`;

/** An index or a projection, as an arrow between two containers. */
export interface Copy {
  kind: "index" | "projection";
  name: string;
  /** Containers, as `database/container`. */
  from: string;
  to: string;
  state: string;
  tone: Tone;
  /** Gets the changes of its source. */
  follows: boolean;
  lag: { changes: number; seconds: number };
  /** Items that could not be written. */
  lost: number;
}

export function copiesOf(indexes: readonly IndexReport[], projections: readonly Projection[]): Copy[] {
  return [
    ...indexes.map((index): Copy => {
      const { title, tone } = indexState(index);
      return {
        kind: "index",
        name: index.container,
        from: `${index.database}/${index.source}`,
        to: index.name,
        state: title,
        tone,
        follows: ["Active", "Incomplete"].includes(index.status),
        lag: index.lag,
        lost: index.counts.refused,
      };
    }),
    ...projections.map(({ id, state, lag, counts, rule: { source, target } }): Copy => {
      return {
        kind: "projection",
        name: id,
        from: `${source.database}/${source.container}`,
        to: `${target.database}/${target.container}`,
        state,
        tone: projectionTone(state),
        follows: state === "running",
        lag,
        lost: counts.deadLetters,
      };
    }),
  ];
}

const lostWords = ({ kind, lost }: Copy): string =>
  kind === "index" ? `${integer(lost)} refused` : plural(lost, "dead letter");

/** The line above an arrow, the line below it, and its colour: red is loss. */
export function arrowWords(copy: Copy): { above: string; below: string; tone: Tone } {
  const { kind, name, state, tone, lag, lost } = copy;
  const below = [
    ...(tone === "good" ? [] : [state]),
    lag.changes === 0 ? "no lag" : lagWords(lag),
    ...(lost > 0 ? [lostWords(copy)] : []),
  ];
  return {
    above: kind === "index" ? "index" : `projection ${name}`,
    below: below.join(" · "),
    tone: lost > 0 ? "bad" : tone,
  };
}

/** The page in one to three sentences: how many copies follow, how far behind they are, and how many items are missing. */
export function summary(copies: readonly Copy[]): string {
  const stopped = copies.filter(({ follows }) => !follows);
  const parts = [`${followWords(copies.length, copies.length - stopped.length)}${stoppedWords(stopped)}.`];
  const behind = copies
    .filter(({ lag }) => lag.changes > 0)
    .sort((one, other) => other.lag.seconds - one.lag.seconds)[0];
  if (behind) parts.push(`${behind.name} is ${lagWords(behind.lag)} behind.`);
  const lost = copies.reduce((sum, copy) => sum + copy.lost, 0);
  if (lost > 0) parts.push(`${plural(lost, "item")} could not be written.`);
  return parts.join(" ");
}

function followWords(all: number, following: number): string {
  const copies = all === 1 ? "1 copy" : `${integer(all)} copies`;
  if (following === 0) return `${copies} ${all === 1 ? "does not follow its source" : "do not follow their sources"}`;
  const some = following === all ? copies : `${integer(following)} of ${copies}`;
  return `${some} ${following === 1 ? "follows its source" : "follow their sources"}`;
}

function stoppedWords([first, ...others]: readonly Copy[]): string {
  if (!first) return "";
  const more = others.length === 0 ? "" : `, and ${integer(others.length)} more`;
  return `; ${first.name}: ${first.state}${more}`;
}

/** Refused items that the report does not list. */
export function unlistedWords({ counts, refused }: IndexReport): string {
  const unlisted = counts.refused - refused.length;
  if (unlisted <= 0) return "";
  const one = unlisted === 1;
  return `${refused.length > 0 ? `${plural(unlisted, "more item")}` : plural(unlisted, "item")} ${one ? "is" : "are"} counted and not listed: a rebuild lists the first 1,000.`;
}

/** Places in a definition that the server's refusal names, in UTF-16 units. */
export const placesIn = (message: string): { from: number; to: number }[] =>
  [...message.matchAll(/\(characters (\d{1,6}) to (\d{1,6})\)/g)].map(([, from, to]) => ({
    from: Number(from),
    to: Number(to),
  }));

export type IndexAction = IndexOrder | "delete";

export const ACTIONS: Record<IndexAction, string> = {
  pause: "Pause",
  resume: "Resume",
  rebuild: "Rebuild",
  delete: "Delete",
};

/** Consequences of an order, before it is given. `indexes` are the indexes whose source is this one. */
export function consequence(action: IndexAction, index: IndexReport, indexes: readonly string[]): string {
  const { source, lag, rows } = index;
  switch (action) {
    case "pause":
      return (
        `The index gets no changes until it is resumed, and can be read as it is now. The change log of '${source}' is ` +
        "kept for it: 24 hours, and at most 5,000,000 commits of a partition. After that the index is built anew."
      );
    case "resume":
      return `The index continues where it stopped. ${lag.changes === 0 ? "No change waits." : `${plural(lag.changes, "change")} ${lag.changes === 1 ? "waits" : "wait"}.`}`;
    case "rebuild":
      return (
        `Every item of '${source}' is read again, and each row is written again. The index can be read meanwhile. ` +
        "The rows cost request units of the index, with low priority."
      );
    case "delete":
      return indexes.length > 0
        ? `The server will refuse this while it has indexes of its own: delete ${indexes.join(", ")} first.`
        : `The container and its ${plural(rows, "row")} are deleted, and requests to it fail. '${source}' stays as it is.`;
  }
}
