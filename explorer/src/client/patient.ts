// Waiting as 429 says: until the budget has something again, or until somebody stops it.

import { asServerError } from "./failure";

const RETRIES_MAX = 200;
const WAIT_MS_MIN = 20;

export interface Patience {
  signal?: AbortSignal | undefined;
  /** Told how often was waited so far, before each wait. */
  onWait?: (waits: number) => void;
}

export async function patient<T>(ask: () => Promise<T>, patience: Patience = {}): Promise<T> {
  for (let waits = 0; ; waits++) {
    try {
      return await ask();
    } catch (failure) {
      const error = asServerError(failure);
      if (error.status !== 429 || waits >= RETRIES_MAX) throw failure;
      patience.onWait?.(waits + 1);
      await pause(Math.max(error.retryAfterMs, WAIT_MS_MIN), patience.signal);
    }
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new DOMException("stopped", "AbortError"));
    if (signal?.aborted) return stop();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", () => clearTimeout(timer), { once: true });
    signal?.addEventListener("abort", stop, { once: true });
  });
}
