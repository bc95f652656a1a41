// Draws a matrix of numbers as colours: one image the size of the matrix, scaled up without smoothing.
//
// Numbers below half a percent of the scale are the ground's colour; what is not known is hatched, which is no colour of
// the scale. Knows nothing of partitions.

import { palette, rgbOf } from "./colour";

export interface Matrix {
  columns: number;
  rows: number;
  /** Column after column, from the lowest row up. NaN is unknown. */
  cells: Float32Array;
  scale: number;
}

const COLOURS = palette();
const GROUND = packed("#060d38");
const UNKNOWN = packed("#3a3f4a");
const UNKNOWN_STRIPE = packed("#565c68");
const LEAST_SHARE = 0.005;

function packed(hex: string): number {
  const [red, green, blue] = rgbOf(hex);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export function colourOf(value: number, scale: number): number {
  const share = value / scale;
  if (share < LEAST_SHARE) return GROUND;
  return COLOURS[Math.min(255, Math.round(share * 255))] as number;
}

/** The pixels, from the highest row down as images are. */
export function pixelsOf(matrix: Matrix): Uint32Array {
  const { columns, rows, cells, scale } = matrix;
  const pixels = new Uint32Array(columns * rows);
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      const value = cells[column * rows + row] as number;
      const isStripe = (column + row) % 4 < 1;
      const colour = Number.isNaN(value) ? (isStripe ? UNKNOWN_STRIPE : UNKNOWN) : colourOf(value, scale);
      pixels[(rows - 1 - row) * columns + column] = colour;
    }
  }
  return pixels;
}

const sheet = typeof document === "undefined" ? null : document.createElement("canvas");

export function draw(context: CanvasRenderingContext2D, matrix: Matrix, width: number, height: number): void {
  context.imageSmoothingEnabled = false;
  context.fillStyle = "#060d38";
  context.fillRect(0, 0, width, height);
  if (!sheet || matrix.columns === 0 || matrix.rows === 0) return;
  sheet.width = matrix.columns;
  sheet.height = matrix.rows;
  const image = new ImageData(
    new Uint8ClampedArray(pixelsOf(matrix).buffer as ArrayBuffer),
    matrix.columns,
    matrix.rows,
  );
  sheet.getContext("2d")?.putImageData(image, 0, 0);
  context.drawImage(sheet, 0, 0, width, height);
}
