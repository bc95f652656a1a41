// What a pane shows while it has nothing to show: empty, loading, failed. Each looks different everywhere.

import { createSignal, onCleanup, Show, type JSX } from "solid-js";
import { Icon } from "./icons";

export function Empty(props: { title: string; children?: JSX.Element }): JSX.Element {
  return (
    <div class="empty">
      <h2>{props.title}</h2>
      <div class="prose">{props.children}</div>
    </div>
  );
}

/** Nothing for a tenth of a second, then a thin bar, then words. */
export function Loading(props: { words: string; onStop?: () => void }): JSX.Element {
  const [stage, setStage] = createSignal(0);
  const timers = [setTimeout(() => setStage(1), 100), setTimeout(() => setStage(2), 1000)];
  onCleanup(() => timers.forEach(clearTimeout));
  return (
    <Show when={stage() > 0}>
      <div class="loading" role="status">
        <div class="bar" />
        <Show when={stage() > 1}>
          <span>{props.words}</span>
          <Show when={props.onStop}>
            <button type="button" onClick={() => props.onStop?.()}>
              Stop
            </button>
          </Show>
        </Show>
      </div>
    </Show>
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
