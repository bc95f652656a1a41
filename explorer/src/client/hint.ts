// What to do about a failure, in one sentence.

import type { ServerError } from "./failure";

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
