// A small drawing of our own: a path of sixteen units, in the colour of the text beside it.

import type { JSX } from "solid-js";

export function Drawing(props: { path: string }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path
        d={props.path}
        fill="none"
        stroke="currentColor"
        stroke-width="1.4"
        stroke-linejoin="round"
        stroke-linecap="round"
      />
    </svg>
  );
}
