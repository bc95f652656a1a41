// Where the tour is, from what is measured. Pure, so it is tested.

import type { Report } from "../../client/reports";

export interface Figures {
  /** Of all operations, those that were refused. */
  refused: number;
  /** RU/s of the busiest partition over its budget. */
  busiest: number;
}

/** Below this the partition has cooled: the service calls up to 5 % a sign of throughput well used. */
const COOL = 0.05;

export function measured(report: Report): Figures {
  let [refused, operations, busiest] = [0, 0, 0];
  for (const { load, budget } of report.partitions) {
    refused += load.throttled;
    operations += load.operationsPerSecond * load.windowSeconds + load.throttled;
    busiest = Math.max(busiest, load.ruPerSecond / Math.max(1, budget?.ruPerSecond ?? 10_000));
  }
  return { refused: operations > 0 ? refused / operations : 0, busiest };
}

/** The figures of the moment at which more was refused. */
export function worse(known: Figures | null, figures: Figures): Figures | null {
  return figures.refused > (known?.refused ?? 0) ? figures : known;
}

/** What a remedy changes: which partitions there are, and what each of them may spend. */
export function dividedBy(report: Report): string {
  const shares = report.partitions.map(({ id, budget }) => `${id}:${Math.round(budget?.ruPerSecond ?? 0)}`);
  return `${shares.join(" ")} ${report.throughput.ruPerSecond ?? 0}`;
}

interface Seen {
  isFound: boolean;
  isRead: boolean;
  isTreated: boolean;
  /** The worst until the remedy was pressed. */
  before: Figures | null;
  /** The newest since then. */
  after: Figures | null;
}

/** 0 wait for heat, 1 read, 2 press, 3 watch, 4 it has cooled. */
export function stepOf({ isFound, isRead, isTreated, before, after }: Seen): number {
  if (isTreated) return after && after.refused < COOL ? 4 : 3;
  if (!isFound || !before || before.refused < COOL) return 0;
  return isRead ? 2 : 1;
}
