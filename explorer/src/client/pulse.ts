// The account's pulse: request units by kind, refusals and latency over a window, for all containers together.

import { send } from "./request";
import { operator } from "./names";

export interface Pulse {
  sequence: number;
  periodSeconds: number;
  times: (number | string)[];
  ru: Record<string, number[]>;
  operations: Record<string, number[]>;
  throttled: number[];
  failed: number[];
  latencyP50Ms: (number | null)[];
  latencyP99Ms: (number | null)[];
  connections: number | number[];
  cpuCores: number | number[];
  memoryBytes: number | number[];
  diskBytes: number | number[];
  containers: {
    database: string;
    container: string;
    ru: number[];
    throttled: number[];
    normalizedRu: (number | null)[];
  }[];
  missed?: boolean;
}

export async function readPulse(window: string): Promise<Pulse> {
  const reply = await send({ method: "GET", ...operator("pulse", `?window=${window}`) });
  return JSON.parse(reply.text) as Pulse;
}

/** The newest of a list that may also be a single number; null where nothing is known. */
export function newest(values: (number | null)[] | number | null | undefined): number | null {
  if (typeof values === "number") return values;
  return values?.findLast((value) => value !== null) ?? null;
}

/** The length that a rate is of: `second`, `minute`, `10 minutes`, `hour`. */
export function periodWords({ periodSeconds }: Pick<Pulse, "periodSeconds">): string {
  const words: Record<number, string> = { 1: "second", 60: "minute", 600: "10 minutes", 3600: "hour" };
  return words[periodSeconds] ?? `${periodSeconds} seconds`;
}

/** Sums per period as rates; the last period is still open and left out. */
export function perSecond(pulse: Pulse, values: number[] | undefined): number[] {
  return (values ?? []).slice(0, -1).map((value) => value / Math.max(1, pulse.periodSeconds));
}
