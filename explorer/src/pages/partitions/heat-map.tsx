// The heat map: x is time, y the part of the hash space that keys use, low at the bottom.
//
// Two canvases: colours below, lines, dots and the cursor above, so that moving over the map redraws little. Arrow keys
// move a cursor whose place is read out; Shift with arrows, or dragging, marks what Enter zooms into.

import { createEffect, createMemo, createSignal, on, onCleanup, onMount, Show, type JSX } from "solid-js";
import { heatColour } from "../../kit/colour";
import { clock, day, percent, rate } from "../../kit/format";
import { draw } from "../../kit/heat";
import { mayWrite } from "../../state/account";
import { cellAt, columnAt, isShare, ownerAt, scaleOf, type HeatModel } from "./heat-model";
import { boundWords } from "./heat-words";
import { drawLines, type Box, type Spot } from "./heat-lines";
import { MomentBar } from "./moment-bar";

interface HeatMapProps {
  model: HeatModel;
  label: string;
  onZoom: (zoom: { min?: string; max?: string; from?: string; to?: string }) => void;
  onReset: () => void;
  onSplitAt: (partition: string, bound: string) => void;
}

const HEIGHT = 260;

export function HeatMap(props: HeatMapProps): JSX.Element {
  const [width, setWidth] = createSignal(600);
  const [spot, setSpot] = createSignal<Spot | null>(null);
  const [kept, setKept] = createSignal<{ time: number; row: number } | null>(null);
  const [box, setBox] = createSignal<Box | null>(null);
  /** What is pinned stays at its moment while columns come and go; where that has gone, nothing is. */
  const pinned = createMemo((): Spot | null => {
    const spot = kept();
    const column = spot ? columnAt(props.model.times, spot.time) : -1;
    return spot && column >= 0 ? { column, row: spot.row } : null;
  });
  const setPinned = (spot: Spot | null) =>
    setKept(spot && { time: props.model.times[spot.column] ?? 0, row: spot.row });
  // Compared by what they are: every answer brings the same bounds in a new list.
  const bounds = createMemo(() => props.model.rowBounds.join());
  createEffect(on(bounds, () => setKept(null), { defer: true }));
  let frame!: HTMLDivElement;
  let colours!: HTMLCanvasElement;
  let lines!: HTMLCanvasElement;

  onMount(() => {
    const watch = new ResizeObserver(() => setWidth(Math.max(200, Math.floor(frame.clientWidth))));
    watch.observe(frame);
    onCleanup(() => watch.disconnect());
  });
  createEffect(() => {
    const { model } = props;
    const context = sized(colours, width(), 1);
    if (context) draw(context, { ...model, scale: scaleOf(model) }, width(), HEIGHT);
  });
  createEffect(() => {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const context = sized(lines, width(), ratio);
    if (context)
      drawLines(context, props.model, { width: width(), height: HEIGHT, spot: spot(), pinned: pinned(), box: box() });
  });

  const spotAt = (event: PointerEvent): Spot => {
    const area = lines.getBoundingClientRect();
    const { columns, rows } = props.model;
    const column = Math.floor(((event.clientX - area.left) / area.width) * columns);
    const row = rows - 1 - Math.floor(((event.clientY - area.top) / area.height) * rows);
    return { column: clamp(column, columns), row: clamp(row, rows) };
  };
  const onPointerMove = (event: PointerEvent) => {
    const now = spotAt(event);
    setSpot(now);
    if (event.buttons === 1) setBox((was) => (was ? { ...was, to: now } : null));
  };
  const onPointerUp = () => {
    const marked = box();
    setBox(null);
    if (marked && isLarge(marked)) zoom(marked);
    else setPinned(spot());
  };
  const zoom = ({ from, to }: Box) => {
    const { model } = props;
    const [low, high] = [Math.min(from.row, to.row), Math.max(from.row, to.row)];
    const [first, last] = [Math.min(from.column, to.column), Math.max(from.column, to.column)];
    props.onZoom({
      min: model.rowBounds[low] ?? "",
      max: model.rowBounds[high + 1] ?? "",
      from: String(model.times[first] ?? 0),
      to: String(model.times[last] ?? 0),
    });
    setSpot(null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const { columns, rows } = props.model;
    const now = spot() ?? { column: columns - 1, row: Math.floor(rows / 2) };
    if (step) {
      const stride = event.ctrlKey ? 10 : 1;
      const next = {
        column: clamp(now.column + (step[0] ?? 0) * stride, columns),
        row: clamp(now.row + (step[1] ?? 0) * stride, rows),
      };
      if (event.shiftKey) setBox({ from: box()?.from ?? now, to: next });
      else setBox(null);
      setSpot(next);
    } else if (event.key === "Enter") {
      const marked = box();
      if (marked && isLarge(marked)) zoom(marked);
      else setPinned(now);
      setBox(null);
    } else if (event.key === "Escape" && (box() || pinned())) {
      setBox(null);
      setPinned(null);
    } else if (event.key === "Home") props.onReset();
    else return;
    event.preventDefault();
  };
  const shown = () => spot() ?? pinned();
  const moment = () => pinned()?.column ?? props.model.columns - 1;
  /** The hottest row of a moment is what one looks for there. */
  const seek = (column: number | null) => {
    if (column === null) return void setPinned(null);
    let row = pinned()?.row ?? 0;
    for (let at = 0; at < props.model.rows; at++)
      if (cellAt(props.model, column, at) > cellAt(props.model, column, row)) row = at;
    setPinned({ column, row });
  };

  return (
    <div class="heat-map">
      <div class="heat-axis mono dim" aria-hidden="true">
        <span>FF</span>
        <span>00</span>
      </div>
      <div
        class="heat-frame"
        ref={frame}
        role="application"
        aria-roledescription="heat map"
        aria-label={`${props.label}. ${summary(props.model)} Arrow keys move, Enter pins, Shift with arrows marks what Enter zooms into, Home shows all.`}
        tabindex="0"
        onKeyDown={onKeyDown}
        onPointerMove={onPointerMove}
        onPointerDown={(event) => {
          const now = spotAt(event);
          setBox({ from: now, to: now });
        }}
        onPointerUp={onPointerUp}
        onPointerLeave={() => {
          setSpot(null);
          setBox(null);
        }}
      >
        <canvas ref={colours} class="heat-colours" />
        <canvas ref={lines} class="heat-lines" />
        <Show when={props.model.columns > 0 && props.model.most === 0}>
          <div class="heat-quiet">
            <b>No load in this window</b>
            <span>Every request to this container shows here within a second.</span>
          </div>
        </Show>
      </div>
      <div class="heat-times dim">
        <Times model={props.model} />
      </div>
      <MomentBar model={props.model} column={moment()} onColumn={seek} />
      <div class="heat-foot">
        <Legend model={props.model} />
        <p class="heat-words" role="status">
          <Show
            when={shown()}
            fallback={<span class="dim">Point at the map, or move over it with the arrow keys.</span>}
          >
            {(at) => <Words model={props.model} spot={at()} />}
          </Show>
        </p>
        <Show when={pinned() && mayWrite() && splitOf(props.model, pinned() as Spot)}>
          {(cut) => (
            <button type="button" onClick={() => props.onSplitAt(cut().partition, cut().bound)}>
              Split partition {cut().partition} here
            </button>
          )}
        </Show>
      </div>
    </div>
  );
}

const clamp = (value: number, count: number) => Math.min(Math.max(value, 0), Math.max(0, count - 1));
const isLarge = ({ from, to }: Box) => Math.abs(from.column - to.column) + Math.abs(from.row - to.row) > 3;

function sized(canvas: HTMLCanvasElement, width: number, ratio: number): CanvasRenderingContext2D | null {
  const [wide, high] = [Math.round(width * ratio), Math.round(HEIGHT * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** The bound below the pinned row, in the partition that owns it now. */
function splitOf(model: HeatModel, spot: Spot): { partition: string; bound: string } | null {
  const owner = ownerAt(model, model.columns - 1, spot.row);
  const bound = model.rowBounds[spot.row];
  if (!owner || !bound || spot.row <= owner.firstRow) return null;
  return { partition: owner.id, bound };
}

export function valueWords(model: HeatModel, value: number): string {
  if (Number.isNaN(value)) return "not known";
  if (isShare(model)) return `${percent(value)} of the ${model.unit === "shareOfBudget" ? "budget" : "operations"}`;
  return `${rate(value)} RU/s`;
}

function Words(props: { model: HeatModel; spot: Spot }): JSX.Element {
  const time = () => new Date(props.model.times[props.spot.column] ?? 0);
  const owner = () => ownerAt(props.model, props.spot.column, props.spot.row);
  const refused = () =>
    props.model.throttled.find(
      ({ column, row, rows }) => column === props.spot.column && props.spot.row >= row && props.spot.row < row + rows,
    );
  const event = () => props.model.events.find(({ column }) => Math.abs(column - props.spot.column) <= 1);
  return (
    <>
      {clock(time())} · <span class="mono">{boundWords(props.model, props.spot.row)}</span>
      <Show when={owner()}>
        {(range) => (
          <>
            {" "}
            · partition {range().id}
            <Show when={range().budget}>{(budget) => <> of {rate(budget())} RU/s</>}</Show>
          </>
        )}
      </Show>{" "}
      · <b>{valueWords(props.model, cellAt(props.model, props.spot.column, props.spot.row))}</b>
      <Show when={refused()}>{(found) => <span class="bad"> · {percent(found().share)} refused with 429</span>}</Show>
      <Show when={event()}>{(found) => <> · {found().words}</>}</Show>
    </>
  );
}

function Legend(props: { model: HeatModel }): JSX.Element {
  let strip!: HTMLCanvasElement;
  onMount(() => {
    const context = strip.getContext("2d");
    for (let at = 0; context && at < 128; at++) {
      const [red, green, blue] = heatColour(at / 127);
      context.fillStyle = `rgb(${red} ${green} ${blue})`;
      context.fillRect(at, 0, 1, 10);
    }
  });
  const most = () =>
    isShare(props.model)
      ? props.model.unit === "shareOfBudget"
        ? "100 % of the partition's budget"
        : "100 % of the operations"
      : valueWords(props.model, scaleOf(props.model));
  return (
    <span class="heat-legend">
      0 <canvas ref={strip} width="128" height="10" aria-hidden="true" /> {most()}
      <span class="legend-dot" aria-hidden="true" /> 429
      <span class="legend-hatch" aria-hidden="true" /> not known
    </span>
  );
}

function Times(props: { model: HeatModel }): JSX.Element {
  const at = (share: number) => {
    const time = props.model.times[Math.round((props.model.columns - 1) * share)];
    if (time === undefined) return "";
    const date = new Date(time);
    return props.model.periodSeconds >= 600 ? `${day(date).slice(5)} ${clock(date).slice(0, 5)}` : clock(date);
  };
  return (
    <>
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <span>{at(share)}</span>
      ))}
    </>
  );
}

function summary(model: HeatModel): string {
  const ranges = model.epochs.at(-1)?.ranges.length ?? 0;
  return `${model.columns} periods of ${model.periodSeconds} seconds, ${model.rows} rows, ${ranges} partitions; the hottest cell has ${valueWords(model, model.most)}.`;
}
