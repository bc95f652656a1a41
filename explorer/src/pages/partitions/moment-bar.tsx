// A seek bar below the map: one moment, and what each partition did then.

import { createMemo, For, Show, type JSX } from "solid-js";
import { clock, day, percent, rate } from "../../kit/format";
import { isShare, momentOf, type HeatModel } from "./heat-model";

const SHOWN_MAX = 12;

interface MomentProps {
  model: HeatModel;
  column: number;
  /** Nothing: the latest moment again. */
  onColumn: (column: number | null) => void;
}

export function MomentBar(props: MomentProps): JSX.Element {
  /** The latest period that is over: the one after it is still counted. */
  const last = () => Math.max(0, props.model.columns - (props.model.isLastOpen ? 2 : 1));
  const at = () => Math.min(Math.max(0, props.column), last());
  const time = () => new Date(props.model.times[at()] ?? 0);
  const words = () => (props.model.periodSeconds >= 60 ? `${day(time())} ${clock(time())}` : clock(time()));
  /** A figure names the time that it is of. */
  const spanWords = () =>
    props.model.periodSeconds === 1 ? `in the second ${words()}` : `in the period from ${words()}`;
  const partitions = createMemo(() =>
    momentOf(props.model, at())
      .sort((left, right) => (right.most || 0) - (left.most || 0))
      .slice(0, SHOWN_MAX),
  );
  const value = (most: number) => (isShare(props.model) ? percent(most) : `${rate(most)} RU/s`);
  return (
    <div class="moment">
      <input
        type="range"
        aria-label="Moment of the map"
        aria-valuetext={words()}
        min="0"
        max={last()}
        value={at()}
        onInput={(event) => {
          const column = Number(event.currentTarget.value);
          props.onColumn(column === last() ? null : column);
        }}
      />
      <p class="moment-words">
        <span class="dim">{spanWords()}, the hottest row of</span>
        <For each={partitions()}>
          {({ id, most, refused }) => (
            <span class="moment-part" classList={{ bad: refused > 0 }}>
              partition {id} <b>{Number.isNaN(most) ? "not known" : value(most)}</b>
              <Show when={refused > 0}> · {percent(refused)} refused</Show>
            </span>
          )}
        </For>
      </p>
    </div>
  );
}
