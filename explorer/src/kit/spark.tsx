// Small charts by hand: a line of the last values, and a stacked area with a legend and a table for those who cannot see it.

import { createMemo, For, Show, type JSX } from "solid-js";

const WIDTH = 120;
const HEIGHT = 28;

/** The last values as a line; its newest value is written beside it by the caller. */
export function Spark(props: { values: number[]; label: string }): JSX.Element {
  const points = createMemo(() => {
    const values = props.values.length > 1 ? props.values : [0, ...props.values, 0];
    const most = Math.max(...values, 1e-9);
    return values
      .map(
        (value, at) =>
          `${((at / (values.length - 1)) * WIDTH).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`,
      )
      .join(" ");
  });
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={props.label}
    >
      <polyline
        points={points()}
        fill="none"
        stroke="currentColor"
        stroke-width="1.5"
        vector-effect="non-scaling-stroke"
      />
    </svg>
  );
}

export interface Series {
  name: string;
  values: number[];
}

const AREA_WIDTH = 600;
const AREA_HEIGHT = 140;

/** Up to six series on top of one another. */
export function StackedArea(props: {
  series: Series[];
  label: string;
  unit: string;
  from: string;
  to: string;
  format: (value: number) => string;
}): JSX.Element {
  const length = () => Math.max(0, ...props.series.map(({ values }) => values.length));
  const sums = createMemo(() =>
    Array.from({ length: length() }, (_, at) => props.series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0)),
  );
  const most = () => Math.max(...sums(), 1e-9);
  const areas = createMemo(() => {
    const floor = new Array<number>(length()).fill(0);
    return props.series.map(({ name, values }, index) => {
      const bottom = [...floor];
      for (let at = 0; at < length(); at++) floor[at] = (floor[at] ?? 0) + (values[at] ?? 0);
      const x = (at: number) => ((at / Math.max(1, length() - 1)) * AREA_WIDTH).toFixed(1);
      const y = (value: number) => (AREA_HEIGHT - (value / most()) * (AREA_HEIGHT - 6)).toFixed(1);
      const upper = floor.map((value, at) => `${x(at)},${y(value)}`);
      const lower = bottom.map((value, at) => `${x(at)},${y(value)}`).reverse();
      return { name, index, points: [...upper, ...lower].join(" ") };
    });
  });
  const newest = (values: number[]) => props.format(values[values.length - 1] ?? 0);
  return (
    <figure class="area">
      <div class="area-scale dim">
        <span>
          {props.format(most())} {props.unit}
        </span>
      </div>
      <svg
        viewBox={`0 0 ${AREA_WIDTH} ${AREA_HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${props.label}: newest ${props.format(sums()[length() - 1] ?? 0)} ${props.unit}, most ${props.format(most())}`}
      >
        <Show when={length() > 1}>
          <For each={areas()}>{(area) => <polygon class={`s${area.index + 1}`} points={area.points} />}</For>
        </Show>
      </svg>
      <div class="area-times dim">
        <span>{props.from}</span>
        <span>{props.to}</span>
      </div>
      <ul class="legend">
        <For each={props.series}>
          {({ name, values }, at) => (
            <li>
              <span class={`swatch s${at() + 1}`} aria-hidden="true" />
              {name} <b>{newest(values)}</b>
            </li>
          )}
        </For>
      </ul>
    </figure>
  );
}
