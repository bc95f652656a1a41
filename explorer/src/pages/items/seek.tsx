// Where in the hash space the list begins, however many items there are.

import { For, type JSX } from "solid-js";
import { percent } from "../../kit/format";

const STEPS = 1000;

interface SeekProps {
  at: number;
  /** Bounds between partitions, as shares. */
  bounds: number[];
  onSeek: (at: number) => void;
}

export function SeekBar(props: SeekProps): JSX.Element {
  return (
    <div class="seek">
      <label class="hidden-label" for="seek">
        Where in the hash space the list begins
      </label>
      <span class="seek-track">
        <input
          id="seek"
          type="range"
          min="0"
          max={STEPS - 1}
          value={Math.round(props.at * STEPS)}
          aria-valuetext={`from ${percent(props.at)} of the hash space on`}
          onChange={(event) => props.onSeek(Number(event.currentTarget.value) / STEPS)}
        />
        <For each={props.bounds}>
          {(bound) => <span class="seek-bound" aria-hidden="true" style={{ left: `${bound * 100}%` }} />}
        </For>
      </span>
      <span class="dim">{props.at > 0 ? `from ${percent(props.at)} of the keys on` : "from the first key on"}</span>
    </div>
  );
}
