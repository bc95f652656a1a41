// What a pane shows where it has nothing to show: empty, failed. Loading, `loading.tsx`, looks like neither of them.

import { Show, type JSX } from "solid-js";
import { Icon } from "./icons";

export function Empty(props: { title: string; children?: JSX.Element }): JSX.Element {
  return (
    <div class="empty">
      <h2>{props.title}</h2>
      <div class="prose">{props.children}</div>
    </div>
  );
}

export interface FailureWords {
  title: string;
  message: string;
  hint: string;
  details: string;
}

export function Failed(props: { failure: FailureWords; onRetry?: () => void }): JSX.Element {
  return (
    <div class="failed" role="alert">
      <Icon name="bad" />
      <div>
        <b>{props.failure.title}</b>
        <p class="message">{props.failure.message}</p>
        <Show when={props.failure.hint}>
          <p>{props.failure.hint}</p>
        </Show>
        <details>
          <summary>Details</summary>
          <pre>{props.failure.details}</pre>
        </details>
      </div>
      <Show when={props.onRetry}>
        <button type="button" onClick={() => props.onRetry?.()}>
          Retry
        </button>
      </Show>
    </div>
  );
}
