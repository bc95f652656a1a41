// What an operator may do about a partition, and what clients will notice of it.

import type { Action, Refused } from "../../client/account";
import type { Partition, Report } from "../../client/reports";

export type Remedy =
  | { kind: "split"; partition: string; at: string; predicted?: string }
  | { kind: "merge"; partitions: string[]; predicted?: string }
  | { kind: "move"; partition: string }
  | { kind: "shares"; shares: Record<string, number>; predicted?: string };

/** The remedy behind an action of a finding, as far as this interface knows it. */
export function remedyOf(action: Action): Remedy | null {
  if (action.kind === "split") {
    const shares = action.predicted?.shares;
    const predicted = shares ? shares.map((share) => `${Math.round(share * 100)} %`).join(" / ") : undefined;
    return { kind: "split", partition: action.partition, at: action.at, ...(predicted ? { predicted } : {}) };
  }
  if (action.kind === "redistribute") {
    const predicted = refusedWords(action.predicted);
    return { kind: "shares", shares: action.shares, ...(predicted ? { predicted } : {}) };
  }
  if (action.kind === "merge") {
    const predicted = refusedWords(action.predicted);
    return { kind: "merge", partitions: action.partitions, ...(predicted ? { predicted } : {}) };
  }
  return null;
}

/** A window tells a share no more exactly than one of its seconds. */
export function refusedWords(predicted: Refused | undefined): string | undefined {
  const { throttledShare: share, throttledShareMax: most = share } = predicted ?? {};
  if (share === undefined || most === undefined) return undefined;
  const words = `${Math.round(share * 100)}`;
  const range = most > share ? `about ${words} to ${Math.ceil(most * 100)}` : words;
  return `${range} % of what is asked for refused`;
}

export function remedyTitle(remedy: Remedy): string {
  const isSplit = remedy.kind === "split" && remedy.predicted;
  return isSplit ? `${remedyName(remedy)} → ${remedy.predicted}` : remedyName(remedy);
}

/** Without what was predicted of it. */
export function remedyName(remedy: Remedy): string {
  if (remedy.kind === "split") return `Split partition ${remedy.partition}`;
  if (remedy.kind === "merge") return `Merge partitions ${remedy.partitions.join(" and ")}`;
  if (remedy.kind === "move") return `Move partition ${remedy.partition}`;
  return "Divide the throughput";
}

/** Remedies that need no advice: for findings of a server that sends no actions. */
export function plainRemedies(partition: Partition | undefined, kind: string): Remedy[] {
  if (!partition || !["hotRange", "storageSkew"].includes(kind)) return [];
  return [{ kind: "split", partition: partition.id, at: "best" }];
}

/** The neighbour to the right, by bounds. */
export function neighbour(report: Report, id: string): Partition | undefined {
  const from = report.partitions.find((partition) => partition.id === id);
  return report.partitions.find((partition) => partition.minInclusive === from?.maxExclusive);
}

export function sharesOf(report: Report): Record<string, number> {
  const total = report.throughput.ruPerSecond ?? 0;
  return Object.fromEntries(
    report.partitions.map(({ id, budget, throughputFraction }) => [
      id,
      Math.round(budget?.ruPerSecond ?? throughputFraction * total),
    ]),
  );
}

/** Changes one share and spreads the difference over the others in proportion, so that the sum stays. */
export function withShare(
  shares: Record<string, number>,
  id: string,
  wanted: number,
  most: number,
): Record<string, number> {
  const total = Object.values(shares).reduce((sum, share) => sum + share, 0);
  const others = Object.keys(shares).filter((other) => other !== id);
  const value = Math.min(Math.max(Math.round(wanted), 1), most, total - others.length);
  const rest = total - value;
  const before = others.reduce((sum, other) => sum + (shares[other] ?? 0), 0);
  const next: Record<string, number> = { [id]: value };
  let left = rest;
  others.forEach((other, at) => {
    const isLast = at === others.length - 1;
    const part = isLast ? left : Math.round(((shares[other] ?? 0) / Math.max(1, before)) * rest);
    next[other] = Math.min(Math.max(part, 1), most, left - (others.length - 1 - at));
    left -= next[other] ?? 0;
  });
  return left === 0 ? next : shares;
}
