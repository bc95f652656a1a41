// A result as bars or lines, drawn by hand. The table next to it has the same values as text.

import { createMemo, For, Show, type JSX } from "solid-js";
import { rate } from "../../kit/format";
import { scaleOf, type PlotModel } from "./plot-model";

const WIDTH = 600;
const HEIGHT = 180;
/** Bars that each have their label below. */
const LABELS_MAX = 12;

export type PlotKind = "bars" | "line";

export function Plot(props: { model: PlotModel; kind: PlotKind }): JSX.Element {
  const scale = createMemo(() => scaleOf(props.model.series));
  const y = (value: number) => HEIGHT - ((value - scale().least) / (scale().most - scale().least)) * HEIGHT;
  const count = () => props.model.labels.length;
  const step = () => WIDTH / count();
  const words = () => {
    const names = props.model.series.map(({ name }) => name).join(", ");
    return `${names} by ${count()} rows: from ${rate(scale().least)} to ${rate(scale().most)}`;
  };
  return (
    <figure class="area plot">
      <div class="area-scale dim">
        <span>{rate(scale().most)}</span>
      </div>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={words()}>
        <For each={props.model.series}>
          {({ values }, at) => (
            <Show
              when={props.kind === "bars"}
              fallback={<Line values={values} at={at()} x={(row) => (row + 0.5) * step()} y={y} />}
            >
              <For each={values}>
                {(value, row) => (
                  <Bar
                    value={value ?? 0}
                    label={`${props.model.labels[row()] ?? ""}: ${value ?? "NULL"}`}
                    at={at()}
                    x={row() * step() + step() * (0.1 + (0.8 * at()) / props.model.series.length)}
                    width={(step() * 0.8) / props.model.series.length}
                    y={y}
                  />
                )}
              </For>
            </Show>
          )}
        </For>
        <line class="plot-zero" x1="0" x2={WIDTH} y1={y(0)} y2={y(0)} vector-effect="non-scaling-stroke" />
      </svg>
      <Show
        when={props.kind === "bars" && count() <= LABELS_MAX}
        fallback={
          <div class="area-times dim">
            <span>{props.model.labels[0]}</span>
            <span>{count() > 1 ? props.model.labels[count() - 1] : ""}</span>
          </div>
        }
      >
        <div class="plot-labels dim">
          <For each={props.model.labels}>{(label) => <span title={label}>{label}</span>}</For>
        </div>
      </Show>
      <ul class="legend">
        <For each={props.model.series}>
          {({ name }, at) => (
            <li>
              <span class={`swatch s${at() + 1}`} aria-hidden="true" />
              {name}
            </li>
          )}
        </For>
      </ul>
    </figure>
  );
}

function Bar(props: {
  value: number;
  label: string;
  at: number;
  x: number;
  width: number;
  y: (value: number) => number;
}): JSX.Element {
  const top = () => Math.min(props.y(props.value), props.y(0));
  return (
    <rect
      class={`s${props.at + 1}`}
      x={props.x.toFixed(2)}
      y={top().toFixed(2)}
      width={props.width.toFixed(2)}
      height={Math.abs(props.y(props.value) - props.y(0)).toFixed(2)}
    >
      <title>{props.label}</title>
    </rect>
  );
}

/** A line with gaps where values are NULL. */
function Line(props: {
  values: (number | null)[];
  at: number;
  x: (row: number) => number;
  y: (value: number) => number;
}): JSX.Element {
  const path = () => {
    let isOpen = false;
    const parts = props.values.map((value, row) => {
      if (value === null) {
        isOpen = false;
        return "";
      }
      const move = isOpen ? "L" : "M";
      isOpen = true;
      return `${move}${props.x(row).toFixed(2)} ${props.y(value).toFixed(2)}`;
    });
    return parts.join("");
  };
  return <path class={`plot-line s${props.at + 1}`} d={path()} fill="none" vector-effect="non-scaling-stroke" />;
}
