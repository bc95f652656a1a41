// Whether a remedy is in force, and what it came to. Pure, so it is tested.

import type { Partition, Report } from "../../client/reports";
import type { Remedy } from "./remedies";

const idsOf = (report: Report) => new Set(report.partitions.map(({ id }) => id));

/** Partitions that there were not before, in the order of the hash space. */
function made(before: Report, after: Report): Partition[] {
  const known = idsOf(before);
  return after.partitions
    .filter(({ id }) => !known.has(id))
    .sort((left, right) => (left.minInclusive < right.minInclusive ? -1 : 1));
}

/** A division of throughput is in force at once, everything else when the new partitions have taken over. */
export function isInForce(remedy: Remedy, before: Report, after: Report): boolean {
  return after.relocation === null && (remedy.kind === "shares" || made(before, after).length > 0);
}

/** A relocation has ended without coming to anything since. */
export function wasGivenUp(before: Report, after: Report): boolean {
  const { lastRelocation: last } = after;
  const isNew = JSON.stringify(last) !== JSON.stringify(before.lastRelocation);
  return after.relocation === null && isNew && last !== null && last.outcome !== "done";
}

/** In the words of the prediction. */
export function cameTo(remedy: Remedy, before: Report, after: Report): string {
  if (remedy.kind === "shares") {
    const busiest = after.partitions.map(
      ({ load, budget }) => load.ruPerSecond / Math.max(1, budget?.ruPerSecond ?? 1),
    );
    return `the busiest partition uses ${Math.round(Math.max(0, ...busiest) * 100)} % of its budget`;
  }
  const partitions = made(before, after);
  const ids = partitions.map(({ id }) => id).join(" and ");
  if (remedy.kind !== "split") return `partition ${ids} serves what it took over`;
  const total = partitions.reduce((sum, { load }) => sum + load.ruPerSecond, 0);
  if (total === 0) return `partitions ${ids}, which nobody has used since`;
  const shares = partitions.map(({ load }) => `${Math.round((load.ruPerSecond / total) * 100)} %`);
  return `${shares.join(" / ")} in partitions ${ids}`;
}
