// What a pane shows while what it shows is on its way.

import { createSignal, onCleanup, Show, type JSX } from "solid-js";

/** Nothing for a tenth of a second, then a thin bar, then words, where there are any. */
export function Loading(props: { words: string; onStop?: () => void }): JSX.Element {
  const [stage, setStage] = createSignal(0);
  const timers = [setTimeout(() => setStage(1), 100), setTimeout(() => setStage(2), 1000)];
  onCleanup(() => timers.forEach(clearTimeout));
  return (
    <Show when={stage() > 0}>
      <div class="loading" role="status">
        <div class="bar" />
        <Show when={stage() > 1 && props.words !== ""}>
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
