// A failure as the pane shows it: what happened, to what, what to do, and the numbers one click away.

import { asServerError } from "../client/failure";
import { hint } from "../client/hint";
import type { FailureWords } from "../kit/pane";

export function failureWords(what: string, failure: unknown): FailureWords {
  const error = asServerError(failure);
  const status = error.status > 0 ? `${error.status}${error.substatus ? `/${error.substatus}` : ""}` : "no answer";
  const details = [
    `status ${status}`,
    error.activityId && `activity id ${error.activityId}`,
    error.retryAfterMs > 0 && `retry after ${error.retryAfterMs} ms`,
    `at ${new Date().toISOString()}`,
  ];
  return {
    title: `${what} failed`,
    message: error.message,
    hint: hint(error),
    details: details.filter(Boolean).join("\n"),
  };
}
