// What the frame of every page rests on: what the server can do, who is asking, which containers there are, what is wrong.
//
// These are reports about data and not data, so they are parsed.

import { send } from "./request";
import { ServerError } from "./failure";
import { feed, operator, operatorOf } from "./names";

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

/** Of all request units that are asked for, those that are refused. */
export interface Refused {
  throttledShare?: number;
  /** The most that it may come to, as far as the window tells. */
  throttledShareMax?: number;
}

export type Action =
  | { kind: "split"; partition: string; at: string; predicted?: { shares?: number[] } }
  | { kind: "redistribute"; shares: Record<string, number>; predicted?: Refused }
  | { kind: "throughput"; ruPerSecond: number }
  | { kind: "merge"; partitions: string[]; predicted?: Refused }
  | { kind: "rekey" };

/** The kind of the finding that says that all is well. */
export const NOTHING_WRONG = "nothingWrong";

/** Something is wrong now: neither all is well nor was it cured. */
export const isWrong = ({ kind, until }: Finding): boolean => kind !== NOTHING_WRONG && (until ?? null) === null;

export interface Finding {
  kind: string;
  partition: string | null;
  /** How far back it is judged; an older server names no window. */
  windowSeconds?: number;
  since?: number | string | null;
  /** Set once it no longer holds. */
  until?: number | string | null;
  summary: string;
  evidence: { name: string; value: number | string }[];
  remedy: string;
  actions?: Action[];
}

export interface Shard {
  number: number;
  partitions: number;
  sizeBytes: number;
  /** Allocated blocks. */
  diskBytes?: number;
  isWritable?: boolean;
}

export interface ServerInfo {
  version: string;
  label?: string | null;
  durability?: string;
  consistency?: string;
  startedAt?: string;
  features: string[];
  limits?: Record<string, number>;
  shards?: Shard[];
  disk?: { usedBytes: number; freeBytes: number | null };
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

export async function get<T>(address: ReturnType<typeof operator>, signal?: AbortSignal): Promise<T> {
  const reply = await send({ method: "GET", ...address, ...(signal ? { signal } : {}) });
  return JSON.parse(reply.text) as T;
}

const isClockOff = (failure: ServerError): boolean => /not valid at the current time/.test(failure.message);

/** Nothing where the server has no such route, or not for this caller: then nothing that builds on it is shown. */
export async function offered<T>(asking: Promise<T>): Promise<T | null> {
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

export async function listDatabases(): Promise<string[]> {
  const reply = await send({ method: "GET", ...feed("dbs", []) });
  const { Databases } = JSON.parse(reply.text) as { Databases: { id: string }[] };
  return Databases.map((database) => database.id);
}

/** What is wrong with a container, without the figures of its partitions. */
export async function readFindings(db: string, coll: string): Promise<Finding[]> {
  return (await get<{ findings: Finding[] }>(operatorOf(db, coll, "partitions", "?window=1m&parts=findings"))).findings;
}
