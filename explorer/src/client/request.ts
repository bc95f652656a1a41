// One request to the server: signed, sent, counted, and its failure in words.
//
// The endpoint is the page's own origin and nothing else. Bodies stay text: whoever wants numbers out of them parses
// reports, never items. What this tab has spent is counted here.

import { authorization } from "./sign";
import { credential, touch } from "./session";
import { noAnswer, ServerError } from "./failure";

export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Percent-encoded, with the slash in front; may carry a query. */
  path: string;
  resourceType: string;
  /** What is signed besides: decoded, without a slash in front. */
  link: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: AbortSignal;
}

export interface Reply {
  status: number;
  text: string;
  charge: number;
  elapsedMs: number;
  header(name: string): string | null;
}

export interface Spent {
  requests: number;
  ru: number;
}

const spent: Spent = { requests: 0, ru: 0 };
const watchers = new Set<(spent: Spent) => void>();

/** Calls back after every request. */
export function onSpent(watcher: (spent: Spent) => void): void {
  watchers.add(watcher);
}

/** Answers for every status below 400 and 304; everything else is a `ServerError`. */
export async function send(call: Call): Promise<Reply> {
  const headers = await signedHeaders(call);
  const started = performance.now();
  let response: Response;
  let text: string;
  try {
    response = await fetch(call.path, {
      method: call.method,
      headers,
      body: call.body ?? null,
      signal: call.signal ?? null,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
    text = await response.text();
  } catch (failure) {
    if (call.signal?.aborted) throw failure;
    throw noAnswer();
  }
  const charge = Number(response.headers.get("x-ms-request-charge") ?? "0") || 0;
  spent.requests += 1;
  spent.ru += charge;
  for (const watcher of watchers) watcher(spent);
  if (response.status >= 400) throw await failureOf(response, text);
  void touch();
  return {
    status: response.status,
    text,
    charge,
    elapsedMs: performance.now() - started,
    header: (name) => response.headers.get(name),
  };
}

/** Where the server went away after this answer, what would take it apart does not come: then the answer is told as it is. */
async function failureOf({ status, headers }: Response, text: string): Promise<ServerError> {
  try {
    return (await import("./error-body")).readError(status, text, headers);
  } catch {
    return new ServerError(status, 0, text.slice(0, 2_000), headers.get("x-ms-activity-id") ?? "", 0, [], null);
  }
}

async function signedHeaders(call: Call): Promise<Record<string, string>> {
  const date = new Date().toUTCString();
  const headers: Record<string, string> = {
    accept: "application/json",
    "x-ms-date": date,
    "x-ms-version": "2020-07-15",
    ...call.headers,
  };
  if (call.body !== undefined) headers["content-type"] ??= "application/json";
  const who = credential();
  if (who?.kind === "token") headers["authorization"] = who.token;
  if (who?.kind === "key") {
    const { method: verb, resourceType, link } = call;
    headers["authorization"] = await authorization(who.key, { verb, resourceType, link, date });
  }
  return headers;
}
