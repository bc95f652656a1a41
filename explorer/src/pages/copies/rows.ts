// Rows of a table that is read again and again: a row stays the same element, with its buttons and the focus in it.

import { createMemo, type Accessor } from "solid-js";

/** Names, the same list while none is added or removed, and the newest value of each. */
export function rowsOf<T>(all: Accessor<readonly T[]>, nameOf: (one: T) => string) {
  const names = createMemo(() => all().map(nameOf), undefined, {
    equals: (left, right) => JSON.stringify(left) === JSON.stringify(right),
  });
  /** The last value of one that was removed stays until its row is. */
  const of = (name: string): Accessor<T> =>
    createMemo<T>((before) => all().find((one) => nameOf(one) === name) ?? before, undefined as T);
  return { names, of };
}
