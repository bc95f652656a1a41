// What the operator's interface tells of a container: its partitions in full, its heat, where a key is; and orders to them.
//
// These are reports about data and not data, so they are parsed.

import { floats } from "./floats";
import { send } from "./request";
import { get, offered, type Finding, type Relocation } from "./account";
import { operatorOf } from "./names";

export interface HotKey {
  key: string;
  ru: number;
  errorRu: number;
  share: number;
}

export interface HotTemplate {
  template: string;
  ru: number;
  errorRu: number;
  share: number;
}

export interface Partition {
  id: string;
  parents: string[];
  minInclusive: string;
  maxExclusive: string;
  shard: number;
  items: number;
  sizeBytes: number;
  lsn: number;
  throughputFraction: number;
  budget?: { ruPerSecond: number; availableRu: number; peakRuPerSecond: number; refusedOperations: number } | null;
  load: {
    windowSeconds: number;
    ruPerSecond: number;
    operationsPerSecond: number;
    share: number;
    normalizedRu: number | null;
    busiestSecondRu: number;
    throttled: number;
    throttledShare: number;
    latencyMeanMs: number;
    latencyMaxMs: number;
    kinds: { kind: string; operations: number; ru: number; share: number }[];
    buckets: { min: string; ru: number }[];
  };
  hottestKeys: HotKey[];
  hottestQueries: HotTemplate[];
  largestKeys: { key: string; items: number; sizeBytes: number }[];
  distinctKeys: { count: number; error: number };
  loadMedian: string | null;
  next: string;
}

export interface Report {
  database: string;
  container: string;
  partitionKey: string[];
  generation: number;
  items: number;
  sizeBytes: number;
  throughput: {
    mode: string;
    ruPerSecond: number | null;
    scaledToRuPerSecond: number | null;
    sharedByDatabase: boolean;
    enforced: boolean;
  };
  partitionSizeBytesMax: number;
  logicalPartitionSizeBytesMax: number;
  partitions: Partition[];
  relocation: Relocation | null;
  lastRelocation: LastRelocation | null;
  findings: Finding[];
}

export interface LastRelocation {
  outcome: string;
  kind?: string;
  sources?: string[];
  targets?: string[];
  items?: number;
  durationMs?: number;
  pauseMs?: number;
  reason?: string;
}

export function readReport(db: string, coll: string, window: string, signal?: AbortSignal): Promise<Report> {
  return get<Report>(operatorOf(db, coll, "partitions", `?window=${window}`), signal);
}

export interface Heat {
  /** The number of the first column; `sequence` is that of the last one. */
  firstSequence: number;
  sequence: number;
  periodSeconds: number;
  times: (number | string)[];
  rowBounds: string[];
  /** Column after column, each from the lowest row up; NaN where nothing is known. */
  cells: Float32Array;
  unit: string;
  throttled: [number, number, number, number][];
  epochs: {
    from: number | string;
    ranges: { id: string; firstRow: number; rows: number; budgetRuPerSecond: number | null }[];
  }[];
  events: HeatEvent[];
  knownSince: number | string | null;
}

export interface HeatEvent {
  time: number | string;
  kind: string;
  sources?: string[];
  targets?: string[];
  pauseMs?: number | null;
  from?: unknown;
  to?: unknown;
}

export interface HeatQuery {
  window: string;
  rows: number;
  measure: string;
  min?: string | undefined;
  max?: string | undefined;
  /** Only what came after this sequence. */
  since?: number | undefined;
}

export async function readHeat(db: string, coll: string, query: HeatQuery, signal?: AbortSignal): Promise<Heat | null> {
  const words = [`window=${query.window}`, `rows=${query.rows}`, `measure=${query.measure}`];
  if (query.min) words.push(`min=${query.min}`);
  if (query.max) words.push(`max=${query.max}`);
  if (query.since !== undefined) words.push(`since=${query.since}`);
  type Packed = Omit<Heat, "cells" | "firstSequence"> & { cells: string; firstSequence?: number };
  const packed = await offered(get<Packed>(operatorOf(db, coll, "heat", `?${words.join("&")}`), signal));
  if (!packed) return null;
  // An older server leaves it to the count of its columns.
  const firstSequence = packed.firstSequence ?? packed.sequence - packed.times.length + 1;
  return { ...packed, firstSequence, cells: floats(packed.cells) };
}

export interface KeyPlace {
  key: unknown;
  epk: string;
  partition: string;
  shard: number;
  items: number;
  sizeBytes: number;
  sizeBytesMax: number;
  load: { ru: number; errorRu: number; share: number; windowSeconds: number } | null;
}

export function readKeyPlace(db: string, coll: string, key: string): Promise<KeyPlace> {
  return get<KeyPlace>(operatorOf(db, coll, "key", `?key=${encodeURIComponent(key)}`));
}

async function act(db: string, coll: string, method: "POST" | "PUT", rest: string, body: unknown): Promise<string> {
  const address = operatorOf(db, coll, rest);
  return (await send({ method, ...address, body: JSON.stringify(body) })).text;
}

export const split = (db: string, coll: string, id: string, at: string) =>
  act(db, coll, "POST", `partitions/${encodeURIComponent(id)}/split`, { at });
export const merge = (db: string, coll: string, ids: string[]) => act(db, coll, "POST", "partitions/merge", { ids });
export const move = (db: string, coll: string, id: string, shard: number) =>
  act(db, coll, "POST", `partitions/${encodeURIComponent(id)}/move`, { shard });
export const abortRelocation = (db: string, coll: string) => act(db, coll, "POST", "relocation/abort", {});
export const redistribute = (db: string, coll: string, shares: Record<string, number>) =>
  act(db, coll, "PUT", "throughput", { shares });
