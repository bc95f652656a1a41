// What a page has asked for once: the answer, its failure, and asking again. The last answer stays until the next one is there.

import { createEffect, createMemo, createSignal, on } from "solid-js";

export interface Asked<T> {
  value: () => T | undefined;
  /** Of the last question; the value before it is still there. */
  error: () => unknown;
  isLoading: () => boolean;
  again: () => Promise<void>;
  set: (value: T) => void;
}

/** Asks now, and again whenever `about` changes; what was asked about something else before is forgotten. */
export function asked<T, A = undefined>(
  ask: (about: A) => Promise<T>,
  about: () => A = () => undefined as A,
): Asked<T> {
  const [value, setValue] = createSignal<T>();
  const [error, setError] = createSignal<unknown>();
  const [isLoading, setLoading] = createSignal(true);
  let turn = 0;
  const again = async () => {
    const mine = ++turn;
    setLoading(true);
    try {
      const answer = await ask(about());
      if (mine === turn) setValue(() => answer);
      if (mine === turn) setError(undefined);
    } catch (failure) {
      if (mine === turn) setError(() => failure);
    }
    if (mine === turn) setLoading(false);
  };
  // Compared by what it is about: whatever else has changed on the page is no reason to ask again.
  const subject = createMemo(about);
  createEffect(
    on(subject, (_, before) => {
      if (before !== undefined) setValue(undefined);
      void again();
    }),
  );
  return { value, error, isLoading, again, set: (next) => void setValue(() => next) };
}
