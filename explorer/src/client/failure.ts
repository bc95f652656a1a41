// What went wrong with a request: the server's own words, numbers, places in a query's text.

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

export function noAnswer(): ServerError {
  return new ServerError(0, 0, "the server does not answer: is it running?", "", 0, [], null);
}
