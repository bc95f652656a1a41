// Whether another indexing policy is better for a query. Pure, so it is tested.

import type { QueryFate } from "../../client/schema";

export type Verdict = "refused" | "no index" | "dearer" | "cheaper" | "the same" | "–";

/** Of a charge: two that are closer are the same, as far as a prediction tells. */
const ALIKE = 0.1;

/**
 * A policy is cheaper only where its prediction is below both the prediction of now and the charge that was measured here:
 * a prediction of now that is too high recommends nothing.
 */
export function verdictOf({ now, then, measured }: QueryFate): Verdict {
  if (then.refusal !== null) return now.refusal === null ? "refused" : "–";
  if (then.charge === null || now.charge === null) {
    return then.way === "scan" && now.way !== "scan" && now.way !== null ? "no index" : "–";
  }
  const least = Math.min(now.charge, measured ?? now.charge);
  if (then.charge > now.charge * (1 + ALIKE)) return "dearer";
  return then.charge < least * (1 - ALIKE) ? "cheaper" : "the same";
}
