// A heat matrix as the map needs it: cells by column and row, bounds, who owned which row when. Pure, so it is tested.

import type { Heat, HeatEvent } from "../../client/reports";
import { timeOf } from "../../kit/format";

export interface HeatModel {
  columns: number;
  rows: number;
  times: number[];
  /** Column after column, each from the lowest row up; NaN where nothing is known. */
  cells: Float32Array;
  rowBounds: string[];
  unit: string;
  most: number;
  /** Columns and rows of refusals, with their share of the operations. */
  throttled: { column: number; row: number; rows: number; share: number }[];
  /** From this column on these ranges. */
  epochs: { column: number; ranges: { id: string; firstRow: number; rows: number; budget: number | null }[] }[];
  events: { column: number; words: string }[];
  knownSince: number | null;
  periodSeconds: number;
  /** The last column is of a period that is still counted. */
  isLastOpen: boolean;
}

export function modelOf(heat: Heat): HeatModel {
  const times = heat.times.map((time) => timeOf(time).getTime());
  const { cells } = heat;
  const columns = times.length;
  const rows = columns === 0 ? 0 : Math.round(cells.length / columns);
  let most = 0;
  for (const cell of cells) if (cell > most) most = cell;
  const columnOf = (time: number | string) => columnAt(times, timeOf(time).getTime());
  return {
    columns,
    rows,
    times,
    cells,
    most,
    rowBounds: heat.rowBounds,
    unit: heat.unit,
    throttled: heat.throttled.map(([time, row, count, share]) => ({
      column: time < columns ? time : columnOf(time),
      row,
      rows: count,
      share,
    })),
    epochs: heat.epochs.map(({ from, ranges }) => ({
      column: Math.max(0, columnOf(from)),
      ranges: ranges.map(({ id, firstRow, rows: count, budgetRuPerSecond }) => ({
        id,
        firstRow,
        rows: count,
        budget: budgetRuPerSecond,
      })),
    })),
    events: heat.events.map((event) => ({ column: columnOf(event.time), words: eventWords(event) })),
    knownSince: heat.knownSince === null ? null : timeOf(heat.knownSince).getTime(),
    periodSeconds: heat.periodSeconds,
    isLastOpen: columns > 0,
  };
}

/** Without a second that is still counted, which would look as if all had just cooled. Longer periods are shown as they grow. */
export function closed(model: HeatModel): HeatModel {
  if (!model.isLastOpen || model.periodSeconds > 1 || model.columns < 2) return model;
  return sliceTimes(model, 0, model.times[model.columns - 2] as number);
}

/** The last column that begins at or before a time; -1 before the first. */
export function columnAt(times: number[], time: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function cellAt(model: HeatModel, column: number, row: number): number {
  return model.cells[column * model.rows + row] ?? Number.NaN;
}

/** Who owned a row at a column. */
export function ownerAt(model: HeatModel, column: number, row: number) {
  const epoch = model.epochs.findLast((one) => one.column <= column) ?? model.epochs[0];
  return epoch?.ranges.find(({ firstRow, rows }) => row >= firstRow && row < firstRow + rows);
}

export function hottest(model: HeatModel, count: number): { column: number; row: number; value: number }[] {
  const found: { column: number; row: number; value: number }[] = [];
  for (let column = 0; column < model.columns; column++) {
    for (let row = 0; row < model.rows; row++) {
      const value = cellAt(model, column, row);
      if (!(value > 0)) continue;
      if (found.length === count && value <= (found[count - 1]?.value ?? 0)) continue;
      found.push({ column, row, value });
      found.sort((left, right) => right.value - left.value);
      if (found.length > count) found.pop();
    }
  }
  return found;
}

function eventWords(event: HeatEvent): string {
  const sources = event.sources?.join(", ") ?? "";
  const targets = event.targets?.join(", ") ?? "";
  if (event.kind === "throughput") return `throughput ${describe(event.from)} → ${describe(event.to)}`;
  const pause = typeof event.pauseMs === "number" ? `, writers held ${event.pauseMs.toFixed(1)} ms` : "";
  return `${event.kind} ${sources} → ${targets}${pause}`;
}

const describe = (value: unknown): string =>
  typeof value === "number" ? `${value} RU/s` : typeof value === "string" ? value : "…";

/** The full value of the colour scale. */
export function scaleOf(model: HeatModel): number {
  return isShare(model) ? 1 : Math.max(model.most, 1e-9);
}

/**
 * Columns of a `since` answer behind the known ones: the open column comes again, and of more than `most` the oldest go.
 *
 * Columns are the same by their number. Their times are counted back from the server's clock, some milliseconds apart from
 * answer to answer: the known ones are moved to the newest answer's count.
 */
export function append(known: Heat, delta: Heat, most: number): Heat {
  const isOther =
    delta.rowBounds.length !== known.rowBounds.length ||
    delta.rowBounds[1] !== known.rowBounds[1] ||
    delta.unit !== known.unit ||
    delta.periodSeconds !== known.periodSeconds;
  const keptCount = delta.firstSequence - known.firstSequence;
  const isBehind = keptCount > 0 && keptCount <= known.times.length;
  if (isOther || !isBehind || delta.times.length === 0 || delta.times.length >= most) return delta;
  const dropped = Math.max(0, keptCount + delta.times.length - most);
  const rows = known.cells.length / known.times.length;
  const kept = known.cells.subarray(dropped * rows, keptCount * rows);
  const cells = new Float32Array(kept.length + delta.cells.length);
  cells.set(kept);
  cells.set(delta.cells, kept.length);
  const firstAt = millis(delta.times[0] as number | string);
  const lastKept = millis(known.times[keptCount - 1] as number | string);
  const by = firstAt - 1000 * known.periodSeconds - lastKept;
  const moved = (time: number | string) => millis(time) + by;
  const times = [...known.times.slice(dropped, keptCount).map(moved), ...delta.times];
  const since = millis(times[0] as number | string);
  const isKept = (time: number) => time >= since && time < firstAt;
  const earlier = known.epochs.map((epoch) => ({ ...epoch, from: moved(epoch.from) }));
  const dots = known.throttled.map(([time, ...dot]): Heat["throttled"][number] => [moved(time), ...dot]);
  const events = known.events.map((event) => ({ ...event, time: moved(event.time) }));
  return {
    ...delta,
    firstSequence: known.firstSequence + dropped,
    times,
    cells,
    epochs: epochsSince([...earlier.filter(({ from }) => from < firstAt), ...delta.epochs], since),
    throttled: [...dots.filter(([time]) => isKept(time)), ...delta.throttled],
    events: [...events.filter(({ time }) => isKept(time)), ...delta.events],
    knownSince: known.knownSince === null ? null : moved(known.knownSince),
  };
}

const millis = (time: number | string): number => timeOf(time).getTime();

/** Without those that were over by then, and each once: every answer begins with the division of its first column. */
function epochsSince(epochs: Heat["epochs"], since: number): Heat["epochs"] {
  const begins = epochs.findLastIndex(({ from }) => timeOf(from).getTime() <= since);
  const shown = epochs.slice(Math.max(0, begins));
  return shown.filter((epoch, at) => JSON.stringify(epoch.ranges) !== JSON.stringify(shown[at - 1]?.ranges));
}

/** The columns between two times in milliseconds; 0 leaves an end open. */
export function sliceTimes(model: HeatModel, from: number, to: number): HeatModel {
  if (!from && !to) return model;
  const first = from ? Math.max(0, columnAt(model.times, from)) : 0;
  const last = to ? Math.max(first + 1, columnAt(model.times, to) + 1) : model.columns;
  const shift = <T extends { column: number }>(list: T[]) =>
    list.map((one) => ({ ...one, column: one.column - first }));
  const isShown = ({ column }: { column: number }) => column >= 0 && column < last - first;
  return {
    ...model,
    isLastOpen: model.isLastOpen && last === model.columns,
    columns: last - first,
    times: model.times.slice(first, last),
    cells: model.cells.subarray(first * model.rows, last * model.rows),
    throttled: shift(model.throttled).filter(isShown),
    epochs: shift(model.epochs),
    events: shift(model.events).filter(isShown),
  };
}

export interface Moment {
  id: string;
  /** The highest cell of the partition; NaN where nothing is known. */
  most: number;
  budget: number | null;
  /** Of its operations, those that were refused. */
  refused: number;
}

/** The partitions that there were at a column, each with its heat. */
export function momentOf(model: HeatModel, column: number): Moment[] {
  const epoch = model.epochs.findLast((one) => one.column <= column) ?? model.epochs[0];
  return (epoch?.ranges ?? []).map(({ id, firstRow, rows, budget }) => {
    let most = Number.NaN;
    for (let row = firstRow; row < firstRow + rows; row++) {
      const cell = cellAt(model, column, row);
      if (!Number.isNaN(cell) && !(cell <= most)) most = cell;
    }
    // A bound may lie within a row, which then is of both neighbours: refusals are of the partition that has most of their rows.
    const shared = (dot: { row: number; rows: number }) =>
      Math.min(dot.row + dot.rows, firstRow + rows) - Math.max(dot.row, firstRow);
    const dots = model.throttled.filter((dot) => dot.column === column && shared(dot) * 2 > Math.min(dot.rows, rows));
    return { id, most, budget, refused: Math.max(0, ...dots.map(({ share }) => share)) };
  });
}

/** Cells that are shares: of a budget, or of operations. */
export const isShare = (model: HeatModel): boolean => model.unit.startsWith("share");
