// An answer that is a failure, taken apart. Fetched after the first paint, or with the first failure.

import { ServerError, type Place, type ScriptTrace } from "./failure";

export function readError(status: number, body: string, headers: Headers): ServerError {
  const { message, places } = wordsOf(body);
  return new ServerError(
    status,
    Number(headers.get("x-ms-substatus") ?? "0") || 0,
    message || `the server answered ${status} without a reason`,
    headers.get("x-ms-activity-id") ?? "",
    Number(headers.get("x-ms-retry-after-ms") ?? "0") || 0,
    places,
    /server time: ([^)]*)\)/.exec(message)?.[1] ?? headers.get("date"),
    traceOf(parsed(body)),
  );
}

function traceOf(told: Record<string, unknown> | null): ScriptTrace | null {
  const { log, line } = told ?? {};
  return log === undefined ? null : { log: logText(log), line: typeof line === "number" ? line : 0 };
}

/** What a script has printed: a text, or its lines. */
export function logText(log: unknown): string {
  return typeof log === "string" ? log : Array.isArray(log) ? log.join("\n") : "";
}

function wordsOf(body: string): { message: string; places: Place[] } {
  const outer = parsed(body);
  const text = typeof outer?.["message"] === "string" ? outer["message"] : body.slice(0, 2_000);
  const inner = text.replace(/^Message: /, "").split("\r\nActivityId:")[0] ?? text;
  const nested = parsed(inner);
  if (!nested) return { message: inner.trim(), places: [] };
  const list = nested["errors"] ?? nested["Errors"];
  if (!Array.isArray(list)) return { message: inner.trim(), places: [] };
  const messages: string[] = [];
  const places: Place[] = [];
  for (const entry of list as unknown[]) {
    if (typeof entry === "string") messages.push(entry);
    if (typeof entry !== "object" || entry === null) continue;
    const { message, location, hint } = entry as { message?: string; location?: Place; hint?: string };
    if (message) messages.push(message);
    if (hint) messages.push(hint);
    if (location && Number.isFinite(location.start)) places.push(location);
  }
  return { message: messages.join("\n"), places };
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
