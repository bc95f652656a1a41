// Stored procedures, triggers and functions: read, written with their etags, and tried out.

import { logText } from "./error-body";
import { send, type Reply } from "./request";
import { keyHeader } from "./key";
import { members } from "./json";
import { container, feed, operatorOf, resource } from "./names";

export type ScriptKind = "sprocs" | "triggers" | "udfs";

export interface Script {
  id: string;
  body: string;
  triggerType?: string;
  triggerOperation?: string;
  _etag: string;
}

const LIST: Record<ScriptKind, string> = {
  sprocs: "StoredProcedures",
  triggers: "Triggers",
  udfs: "UserDefinedFunctions",
};

export async function readScripts(db: string, coll: string, kind: ScriptKind): Promise<Script[]> {
  const reply = await send({ method: "GET", ...feed(kind, container(db, coll)) });
  return (JSON.parse(reply.text) as Record<string, Script[]>)[LIST[kind]] ?? [];
}

/** A new script without an etag, else a replacement of the version that was read. */
export async function writeScript(
  db: string,
  coll: string,
  kind: ScriptKind,
  script: Omit<Script, "_etag">,
  etag: string | null,
): Promise<Script> {
  const body = JSON.stringify(script);
  const at = [...container(db, coll), kind];
  const reply =
    etag === null
      ? await send({ method: "POST", ...feed(kind, container(db, coll)), body })
      : await send({ method: "PUT", ...resource([...at, script.id]), headers: { "if-match": etag }, body });
  return JSON.parse(reply.text) as Script;
}

export function deleteScript(db: string, coll: string, kind: ScriptKind, id: string, etag: string): Promise<Reply> {
  return send({ method: "DELETE", ...resource([...container(db, coll), kind, id]), headers: { "if-match": etag } });
}

export interface RunResult {
  result: string;
  log: string;
  charge: number;
  elapsedMs: number;
  writes: { operation: string; id: string }[];
  committed: boolean;
}

export interface Trial {
  kind: "procedure" | "trigger" | "function";
  body: string;
  key: string;
  /** Arguments, or the item that is written; of a delete that a trigger follows, the id as JSON text. */
  given: string;
  operation: string;
  /** A trigger that follows its write. */
  isAfter: boolean;
  commit: boolean;
}

/** Texts are handed on as they were typed: no number passes through a double. */
function trialMembers({ kind, key, given, operation, isAfter }: Trial): string {
  if (kind === "function") return `"arguments":${given}`;
  if (kind === "procedure") return `"partitionKey":${key},"arguments":${given}`;
  const what = isAfter && operation === "Delete" ? "id" : "body";
  const type = isAfter ? "Post" : "Pre";
  return `"partitionKey":${key},"triggerType":"${type}","request":{"operation":"${operation}","${what}":${given}}`;
}

/** Runs a text that need not be saved: without `commit` what it writes is rolled back and listed. */
export async function tryScript(db: string, coll: string, run: Trial): Promise<RunResult> {
  const body = `{"kind":"${run.kind}","body":${JSON.stringify(run.body)},${trialMembers(run)},"commit":${run.commit}}`;
  const { text } = await send({ method: "POST", ...operatorOf(db, coll, "scripts/run"), body });
  const found = new Map(members(text).map(({ name, start, end }) => [name, text.slice(start, end)]));
  const told = (name: string): unknown => JSON.parse(found.get(name) ?? "null");
  const log = told("log");
  return {
    result: found.get("result") ?? "null",
    log: logText(log),
    charge: Number(told("charge") ?? 0),
    elapsedMs: Number(told("elapsedMs") ?? 0),
    writes: (told("writes") as RunResult["writes"] | null) ?? [],
    committed: told("committed") === true,
  };
}

/** Runs a saved procedure by the protocol, for servers without the try-out. */
export async function runSaved(db: string, coll: string, id: string, key: string, given: string): Promise<RunResult> {
  const headers = { ...keyHeader(key), "x-ms-documentdb-script-enable-logging": "true" };
  const reply = await send({
    method: "POST",
    ...resource([...container(db, coll), "sprocs", id]),
    headers,
    body: given,
  });
  const log = decodeURIComponent(reply.header("x-ms-documentdb-script-log-results") ?? "");
  return { result: reply.text, log, charge: reply.charge, elapsedMs: reply.elapsedMs, writes: [], committed: true };
}
