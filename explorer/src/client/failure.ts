// What went wrong with a request, taken apart for people: the server's own words, numbers, places in a query's text.

export interface Place {
  start: number;
  end: number;
}

export interface ScriptTrace {
  log: string;
  /** 0 where it is not known. */
  line: number;
}

export class ServerError extends Error {
  constructor(
    /** 0 where no answer came. */
    readonly status: number,
    readonly substatus: number,
    message: string,
    readonly activityId: string,
    readonly retryAfterMs: number,
    /** Where in a query's text, in UTF-16 units. */
    readonly places: Place[],
    /** The time by the server's clock, where it was told. */
    readonly serverTime: string | null,
    /** Of a script that failed: what it had printed, and where it was. */
    readonly script: ScriptTrace | null = null,
  ) {
    super(message);
  }

  get isAway(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503;
  }
}

/** True for a request that was broken off on purpose. */
export function isAborted(failure: unknown): boolean {
  return failure instanceof DOMException && failure.name === "AbortError";
}

export function asServerError(failure: unknown): ServerError {
  if (failure instanceof ServerError) return failure;
  const message = failure instanceof Error ? failure.message : String(failure);
  return new ServerError(-1, 0, message, "", 0, [], null);
}

export function readError(status: number, body: string, headers: Headers): ServerError {
  const { message, places } = status === 0 ? noAnswer() : wordsOf(body);
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

function noAnswer(): { message: string; places: Place[] } {
  return { message: "the server does not answer: is it running?", places: [] };
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
    const { message, location } = entry as { message?: string; location?: Place };
    if (message) messages.push(message);
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

const HINTS: Record<number, string> = {
  0: "The page keeps what you typed. It tries again by itself.",
  401: "Sign in with one of this account's keys.",
  403: "This key or token may not do that here.",
  404: "It may have been deleted or renamed. Refresh the tree.",
  408: "Make the request smaller, or name a partition key.",
  409: "Choose another id, or wait for what is in progress.",
  410: "The partition was split, merged or moved. Refresh.",
  412: "Somebody else has changed it since you read it.",
  413: "Items hold at most 2 MB.",
  429: "The budget of request units is spent. Wait, or raise the throughput.",
  503: "The server is starting, stopping or cannot write. See its log.",
};

/** What to do about it, in one sentence. */
export function hint(error: ServerError): string {
  if (error.status === 403 && /not valid at the current time/.test(error.message)) {
    return `Set this machine's clock: here it is ${new Date().toUTCString()}, at the server ${error.serverTime ?? "another time"}.`;
  }
  return HINTS[error.status] ?? "";
}
