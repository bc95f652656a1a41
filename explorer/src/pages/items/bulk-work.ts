// Many operations on items: sent in bulk, and sent again as often as the server refuses them for want of throughput.

import { bulk, type BulkOperation } from "../../client/endpoints";
import { asServerError } from "../../client/failure";

export interface Outcome {
  /** Nothing where it was done, or where there is nothing left to do. */
  reason: string | null;
}

export interface BulkWatch {
  isStopped: () => boolean;
  onWait?: (operations: number) => void;
}

const WAIT_MS_MIN = 10;

/** One outcome for each operation, in their order; those that were not begun when it was stopped say so. */
export async function sendAll(
  db: string,
  coll: string,
  operations: BulkOperation[],
  watch: BulkWatch,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = operations.map(() => ({ reason: "it was stopped before" }));
  let waiting = operations.map((_, at) => at);
  while (waiting.length > 0 && !watch.isStopped()) {
    const asked = waiting;
    const results = await bulk(
      db,
      coll,
      asked.map((at) => operations[at] as BulkOperation),
    ).catch((error: unknown) => asServerError(error));
    let waitMs = WAIT_MS_MIN;
    if (!Array.isArray(results)) {
      if (results.status !== 429) {
        for (const at of asked) outcomes[at] = { reason: results.message };
        return outcomes;
      }
      waitMs = Math.max(waitMs, results.retryAfterMs);
    } else {
      waiting = [];
      results.forEach(({ status, retryAfterMs, message }, index) => {
        const at = asked[index];
        if (at === undefined) return;
        if (status === 429 || status === 424) {
          waiting.push(at);
          waitMs = Math.max(waitMs, retryAfterMs);
        } else outcomes[at] = { reason: reasonOf(operations[at]?.kind, status, message) };
      });
    }
    if (waiting.length === 0) break;
    watch.onWait?.(waiting.length);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
  return outcomes;
}

function reasonOf(kind: BulkOperation["kind"] | undefined, status: number, message: string): string | null {
  if (status < 300 || (kind === "Delete" && status === 404)) return null;
  if (status === 412) return "it was changed meanwhile";
  return message || `status ${status}`;
}
