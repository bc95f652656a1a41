// What is drawn over the colours: bounds of partitions as they were then, their numbers, refusals, events, the cursor.

import type { HeatModel } from "./heat-model";

export interface Spot {
  column: number;
  row: number;
}

export interface Box {
  from: Spot;
  to: Spot;
}

export interface Overlay {
  width: number;
  height: number;
  spot: Spot | null;
  pinned: Spot | null;
  box: Box | null;
}

const LABEL_LEAST = 14;
const DOTS_APART = 8;

export function drawLines(context: CanvasRenderingContext2D, model: HeatModel, overlay: Overlay): void {
  const { width, height } = overlay;
  context.clearRect(0, 0, width, height);
  const x = (column: number) => (column / Math.max(1, model.columns)) * width;
  const y = (row: number) => height - (row / Math.max(1, model.rows)) * height;
  drawRefusals(context, model, x, y);
  drawBounds(context, model, x, y);
  drawEvents(context, model, x, height);
  if (overlay.spot) drawCross(context, overlay.spot, model, x, y, width, height, 0.75);
  if (overlay.pinned) drawCross(context, overlay.pinned, model, x, y, width, height, 1);
  if (overlay.box) drawBox(context, overlay.box, x, y);
}

type Scale = (at: number) => number;

function drawBounds(context: CanvasRenderingContext2D, model: HeatModel, x: Scale, y: Scale): void {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  model.epochs.forEach((epoch, at) => {
    const from = x(Math.max(0, epoch.column));
    const to = x(Math.min(model.columns, model.epochs[at + 1]?.column ?? model.columns));
    if (to <= from) return;
    for (const { id, firstRow, rows } of epoch.ranges) {
      const [bottom, top] = [y(firstRow), y(firstRow + rows)];
      if (firstRow > 0) line(context, from, bottom, to, bottom, "rgb(255 255 255 / .55)");
      if (bottom - top < LABEL_LEAST || to - from < 24) continue;
      // One that goes on is told at its end, and not where only a budget changed.
      const goesOn = (range: { id: string; firstRow: number }) => range.id === id && range.firstRow === firstRow;
      if (model.epochs[at + 1]?.ranges.some(goesOn)) continue;
      context.textAlign = "right";
      label(context, id, to - 6, (top + bottom) / 2);
    }
  });
}

/** On a ground of its own, since dots may lie below it. */
function label(context: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  const wide = context.measureText(text).width + 6;
  context.fillStyle = "rgb(6 13 56 / .9)";
  context.fillRect(x + 3 - wide, y - 7, wide, 14);
  context.fillStyle = "#fff";
  context.fillText(text, x, y);
}

function drawRefusals(context: CanvasRenderingContext2D, model: HeatModel, x: Scale, y: Scale): void {
  const cell = x(1) - x(0);
  const lastAt = new Map<number, number>();
  for (const { column, row, rows } of model.throttled) {
    const at = x(column) + cell / 2;
    // Dots that would touch their neighbour are left out: they say that there were refusals, not how many.
    if (at - (lastAt.get(row) ?? Number.NEGATIVE_INFINITY) < DOTS_APART) continue;
    lastAt.set(row, at);
    context.beginPath();
    context.arc(at, y(row + rows / 2), 2.2, 0, 2 * Math.PI);
    context.fillStyle = "#fff";
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = "#060d38";
    context.stroke();
  }
}

function drawEvents(context: CanvasRenderingContext2D, model: HeatModel, x: Scale, height: number): void {
  for (const { column } of model.events) {
    if (column < 0) continue;
    const at = x(column);
    line(context, at, 0, at, height, "rgb(255 255 255 / .35)");
    context.beginPath();
    context.moveTo(at, height - 8);
    context.lineTo(at - 5, height);
    context.lineTo(at + 5, height);
    context.closePath();
    context.fillStyle = "#fff";
    context.fill();
  }
}

function drawCross(
  context: CanvasRenderingContext2D,
  spot: Spot,
  model: HeatModel,
  x: Scale,
  y: Scale,
  width: number,
  height: number,
  strength: number,
): void {
  const [left, top] = [x(spot.column), y(spot.row + 1)];
  const colour = `rgb(255 255 255 / ${strength * 0.5})`;
  const middle = [left + (x(1) - x(0)) / 2, top + (y(0) - y(1)) / 2] as const;
  line(context, middle[0], 0, middle[0], height, colour);
  line(context, 0, middle[1], width, middle[1], colour);
  context.strokeStyle = "#fff";
  context.lineWidth = 1.5;
  const size = Math.max(6, width / Math.max(1, model.columns));
  context.strokeRect(middle[0] - size / 2, middle[1] - 3, size, 6);
}

function drawBox(context: CanvasRenderingContext2D, { from, to }: Box, x: Scale, y: Scale): void {
  const [left, right] = [x(Math.min(from.column, to.column)), x(Math.max(from.column, to.column) + 1)];
  const [top, bottom] = [y(Math.max(from.row, to.row) + 1), y(Math.min(from.row, to.row))];
  context.fillStyle = "rgb(255 255 255 / .15)";
  context.fillRect(left, top, right - left, bottom - top);
  context.strokeStyle = "#fff";
  context.lineWidth = 1;
  context.strokeRect(left, top, right - left, bottom - top);
}

function line(context: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number, colour: string): void {
  context.beginPath();
  context.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  context.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
}
