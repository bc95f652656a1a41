// The first mistake or doubt about a text, as a line that leads to its place.

import { Show, type JSX } from "solid-js";
import type { Remark } from "../../client/json-check";
import { Icon } from "../../kit/icons";

export function Remarks(props: {
  remarks: Remark[];
  onGo: (at: number) => void;
  lineOf: (at: number) => number;
}): JSX.Element {
  const first = () => props.remarks.find(({ isError }) => isError) ?? props.remarks[0];
  return (
    <Show when={first()}>
      {(remark) => (
        <button
          type="button"
          class="remark"
          classList={{ bad: remark().isError, warn: !remark().isError }}
          onClick={() => props.onGo(remark().at)}
        >
          <Icon name={remark().isError ? "bad" : "warn"} /> line {props.lineOf(remark().at)}: {remark().words}
          <Show when={props.remarks.length > 1}> · {props.remarks.length - 1} more</Show>
        </button>
      )}
    </Show>
  );
}
