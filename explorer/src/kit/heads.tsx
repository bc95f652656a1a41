// The heads of a table of few rows; those of numbers stand to the right, as the numbers do.

import { For, type JSX } from "solid-js";

export type Head = string | { number: string };

export function Heads(props: { names: Head[] }): JSX.Element {
  return (
    <thead>
      <tr>
        <For each={props.names}>
          {(head) => (
            <th scope="col" classList={{ number: typeof head !== "string" }}>
              {typeof head === "string" ? head : head.number}
            </th>
          )}
        </For>
      </tr>
    </thead>
  );
}
