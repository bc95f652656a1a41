// What the operator's interface tells: containers in short, partitions in full, and what the server can do.
//
// These are reports about data and not data, so they are parsed.

import { floats } from "./floats";
import { send } from "./request";
import { ServerError } from "./failure";
import { operator, operatorOf } from "./names";

export interface ContainerRow {
  database: string;
  container: string;
  rid: string;
  generation: number;
  partitions: number;
  items: number;
  sizeBytes: number;
  relocation: Relocation | null;
}

export interface Relocation {
  kind: string;
  sources: string[];
  targets: { id: string }[];
  step: string;
  items: number;
  itemsCopied: number;
  lag: number;
}

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

export type Action =
  | { kind: "split"; partition: string; at: string; predicted?: { shares?: number[] } }
  | { kind: "redistribute"; shares: Record<string, number>; predicted?: { throttledShare?: number } }
  | { kind: "throughput"; ruPerSecond: number }
  | { kind: "merge"; partitions: string[]; predicted?: { throttledShare?: number } }
  | { kind: "rekey" };

/** The kind of the finding that says that all is well. */
export const NOTHING_WRONG = "nothingWrong";

export interface Finding {
  kind: string;
  partition: string | null;
  summary: string;
  evidence: { name: string; value: number | string }[];
  remedy: string;
  actions?: Action[];
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

export interface ServerInfo {
  version: string;
  label?: string | null;
  durability?: string;
  consistency?: string;
  startedAt?: string;
  features: string[];
  limits?: Record<string, number>;
  shards?: { number: number; partitions: number; sizeBytes: number; diskBytes?: number; isWritable?: boolean }[];
  counts?: Record<string, number>;
  certificateDaysLeft?: number | null;
  [member: string]: unknown;
}

export interface Caller {
  access: "full" | "readOnly" | "token";
  mode?: string;
  resource?: string;
  resourcePartitionKey?: unknown;
  expiresAt?: string;
}

async function get<T>(address: ReturnType<typeof operator>, signal?: AbortSignal): Promise<T> {
  const reply = await send({ method: "GET", ...address, ...(signal ? { signal } : {}) });
  return JSON.parse(reply.text) as T;
}

const isClockOff = (failure: ServerError): boolean => /not valid at the current time/.test(failure.message);

/** Nothing where the server has no such route, or not for this caller: then nothing that builds on it is shown. */
async function offered<T>(asking: Promise<T>): Promise<T | null> {
  try {
    return await asking;
  } catch (failure) {
    if (failure instanceof ServerError && [403, 404, 405].includes(failure.status) && !isClockOff(failure)) return null;
    throw failure;
  }
}

export const readServer = () => offered(get<ServerInfo>(operator("server")));
export const readCaller = () => offered(get<Caller>(operator("caller")));

export async function readContainers(): Promise<ContainerRow[]> {
  return (await get<{ containers: ContainerRow[] }>(operator("partitions"))).containers;
}

export function readReport(db: string, coll: string, window: string, signal?: AbortSignal): Promise<Report> {
  return get<Report>(operatorOf(db, coll, "partitions", `?window=${window}`), signal);
}

/** What is wrong with a container, without the figures of its partitions. */
export async function readFindings(db: string, coll: string): Promise<Finding[]> {
  return (await get<{ findings: Finding[] }>(operatorOf(db, coll, "partitions", "?window=1m&parts=findings"))).findings;
}

export interface Heat {
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
  type Packed = Omit<Heat, "cells"> & { cells: string };
  const packed = await offered(get<Packed>(operatorOf(db, coll, "heat", `?${words.join("&")}`), signal));
  return packed && { ...packed, cells: floats(packed.cells) };
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
