// What the server offers about items and definitions, one function for each thing that a page asks for.

import { send, type Reply } from "./request";
import { rowsOf, valueAt, decodeString } from "./json";
import { keyHeader } from "./key";
import { container, feed, item, resource } from "./names";

export interface Definition {
  id: string;
  partitionKey: { paths: string[]; kind: string; version?: number };
  indexingPolicy: unknown;
  defaultTtl?: number;
  uniqueKeyPolicy?: { uniqueKeys: { paths: string[] }[] };
  changeFeedPolicy?: { retentionDuration?: number };
  globalSecondaryIndexDefinition?: { sourceCollectionId: string };
  _rid: string;
  _self: string;
  _etag: string;
}

export interface Read<T> {
  value: T;
  text: string;
  etag: string;
  reply: Reply;
}

export interface Page {
  rows: string[];
  continuation: string | null;
  charge: number;
  reply: Reply;
}

export interface Scope {
  key?: string | null;
  range?: string | null;
  /** A bound of the hash space in hexadecimal, to begin at. */
  from?: string | null;
}

export interface Query {
  text: string;
  parameters?: { name: string; value: string }[];
  scope?: Scope;
  maxItems: number;
  continuation?: string | null;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function readDefinition(db: string, coll: string): Promise<Read<Definition>> {
  const reply = await send({ method: "GET", ...resource(container(db, coll)) });
  const value = JSON.parse(reply.text) as Definition;
  return { value, text: reply.text, etag: value._etag, reply };
}

/** The body keeps parameter values as the texts they were typed as. */
function queryBody(query: Query): string {
  const parameters = (query.parameters ?? []).map(
    ({ name, value }) => `{"name":${JSON.stringify(name)},"value":${value}}`,
  );
  return `{"query":${JSON.stringify(query.text)},"parameters":[${parameters.join(",")}]}`;
}

/** A page of a query, over everything, a key or a range; the server merges the partitions. */
export async function queryItems(db: string, coll: string, query: Query): Promise<Page> {
  const headers: Record<string, string> = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "true",
    "x-ms-max-item-count": String(query.maxItems),
    ...query.headers,
  };
  const { key, range, from } = query.scope ?? {};
  if (from && !key && !range) Object.assign(headers, { "x-ms-start-epk": from, "x-ms-end-epk": "FF" });
  if (key) Object.assign(headers, keyHeader(key));
  else if (range) headers["x-ms-documentdb-partitionkeyrangeid"] = range;
  else headers["x-shardlake-fan-out"] = "true";
  headers["x-ms-documentdb-query-enablecrosspartition"] = "true";
  if (query.continuation) headers["x-ms-continuation"] = query.continuation;
  const address = feed("docs", container(db, coll));
  const body = queryBody(query);
  const reply = await send({ method: "POST", ...address, headers, body, ...withSignal(query.signal) });
  const continuation = reply.header("x-ms-continuation");
  return { rows: rowsOf(reply.text), continuation, charge: reply.charge, reply };
}

const withSignal = (signal: AbortSignal | undefined) => (signal ? { signal } : {});

export interface ItemAddress {
  db: string;
  coll: string;
  key: string;
  id: string;
  self?: string | undefined;
}

export async function readItem(at: ItemAddress, headers: Record<string, string> = {}): Promise<Reply> {
  const address = item(at.db, at.coll, at.id, at.self);
  return send({ method: "GET", ...address, headers: { ...keyHeader(at.key), ...headers } });
}

export async function createItem(
  db: string,
  coll: string,
  key: string,
  body: string,
  options: { upsert?: boolean } = {},
): Promise<Reply> {
  const headers = keyHeader(key);
  if (options.upsert) headers["x-ms-documentdb-is-upsert"] = "true";
  return send({ method: "POST", ...feed("docs", container(db, coll)), headers, body });
}

export async function replaceItem(at: ItemAddress, body: string, etag: string): Promise<Reply> {
  const headers = { ...keyHeader(at.key), "if-match": etag };
  return send({ method: "PUT", ...item(at.db, at.coll, at.id, at.self), headers, body });
}

export async function patchItem(at: ItemAddress, body: string, etag: string): Promise<Reply> {
  const headers = { ...keyHeader(at.key), "if-match": etag };
  return send({ method: "PATCH", ...item(at.db, at.coll, at.id, at.self), headers, body });
}

/** Without an etag it goes whatever it is by then. */
export async function deleteItem(at: ItemAddress, etag: string | null): Promise<Reply> {
  const headers: Record<string, string> = { ...keyHeader(at.key), ...(etag ? { "if-match": etag } : {}) };
  return send({ method: "DELETE", ...item(at.db, at.coll, at.id, at.self), headers });
}

export interface BulkOperation {
  /** The item, or the body of a patch, or nothing for a deletion. */
  item?: string;
  id?: string;
  key: string;
  kind: "Create" | "Upsert" | "Delete" | "Patch";
  /** Done only while the item has it. */
  etag?: string | undefined;
}

export interface BulkResult {
  status: number;
  retryAfterMs: number;
  message: string;
}

/** Up to a thousand operations, each with an answer of its own, sent at low priority; the server finds their partitions. */
export async function bulk(
  db: string,
  coll: string,
  operations: BulkOperation[],
  signal?: AbortSignal,
): Promise<BulkResult[]> {
  const one = ({ kind, key, id, item: body, etag }: BulkOperation) =>
    `{"operationType":"${kind}","partitionKey":${JSON.stringify(key)}` +
    (id === undefined ? "" : `,"id":${JSON.stringify(id)}`) +
    (etag === undefined ? "" : `,"ifMatch":${JSON.stringify(etag)}`) +
    (body === undefined ? "" : `,"resourceBody":${body}`) +
    "}";
  const reply = await send({
    method: "POST",
    ...feed("docs", container(db, coll)),
    headers: {
      "x-ms-cosmos-is-batch-request": "true",
      "x-ms-cosmos-batch-atomic": "false",
      "x-ms-cosmos-batch-continue-on-error": "true",
      "x-ms-cosmos-priority-level": "Low",
      prefer: "return=minimal",
    },
    body: `[${operations.map(one).join(",")}]`,
    ...withSignal(signal),
  });
  const rows = JSON.parse(reply.text) as { statusCode: number; retryAfterMilliseconds?: number; message?: string }[];
  return rows.map((row) => ({
    status: row.statusCode,
    retryAfterMs: row.retryAfterMilliseconds ?? 0,
    message: row.message ?? "",
  }));
}

/** A member of an item's text, decoded where it is a string. */
export function textMember(text: string, name: string): string | undefined {
  const token = valueAt(text, [name]);
  return token === undefined ? undefined : decodeString(token);
}

export async function createDatabase(id: string): Promise<Reply> {
  return send({ method: "POST", ...feed("dbs", []), body: JSON.stringify({ id }) });
}

export async function deleteDatabase(db: string): Promise<Reply> {
  return send({ method: "DELETE", ...resource(["dbs", db]) });
}

export interface NewContainer {
  id: string;
  paths: string[];
  /** RU/s, or nothing for the default. */
  throughput: number | null;
  isAutoscale?: boolean;
  /** Makes it a global secondary index. */
  index?: { sourceCollectionId: string; definition: string };
}

export async function createContainer(db: string, wanted: NewContainer): Promise<Reply> {
  const { id, paths, throughput, index } = wanted;
  const kind = paths.length > 1 ? "MultiHash" : "Hash";
  // A member without a value is not sent.
  const body = JSON.stringify({ id, partitionKey: { paths, kind, version: 2 }, globalSecondaryIndexDefinition: index });
  const headers: Record<string, string> = {};
  if (throughput !== null && wanted.isAutoscale)
    headers["x-ms-cosmos-offer-autopilot-settings"] = JSON.stringify({ maxThroughput: throughput });
  else if (throughput !== null) headers["x-ms-offer-throughput"] = String(throughput);
  return send({ method: "POST", ...feed("colls", ["dbs", db]), headers, body });
}

export async function replaceDefinition(db: string, coll: string, body: string, etag: string): Promise<Reply> {
  const address = resource(container(db, coll));
  return send({ method: "PUT", ...address, headers: { "if-match": etag }, body });
}

export async function deleteContainer(db: string, coll: string): Promise<Reply> {
  return send({ method: "DELETE", ...resource(container(db, coll)) });
}
