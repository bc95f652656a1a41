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
  return COLOURS[share >= 1 ? 255 : (share * 255 + 0.5) | 0] as number;
}

/** The pixels, from the highest row down as images are. */
export function pixelsOf(matrix: Matrix, pixels = new Uint32Array(matrix.columns * matrix.rows)): Uint32Array {
  const { columns, rows, cells } = matrix;
  const perScale = 1 / matrix.scale;
  // Row by row, so that what is written lies together: a large map has 370,000 cells, and is drawn again with every
  // period.
  let at = 0;
  for (let row = rows - 1; row >= 0; row--) {
    for (let column = 0, cell = row; column < columns; column++, cell += rows) {
      const share = (cells[cell] as number) * perScale;
      let colour = GROUND;
      if (share >= LEAST_SHARE) colour = COLOURS[share >= 1 ? 255 : (share * 255 + 0.5) | 0] as number;
      else if (share !== share) colour = ((column + row) & 3) === 0 ? UNKNOWN_STRIPE : UNKNOWN;
      pixels[at++] = colour;
    }
  }
  return pixels;
}

const sheet = typeof document === "undefined" ? null : document.createElement("canvas");
/** Of the last drawing: a map is drawn again every second, and megabytes for each would have to be collected. */
let image: ImageData | null = null;

export function draw(context: CanvasRenderingContext2D, matrix: Matrix, width: number, height: number): void {
  context.imageSmoothingEnabled = false;
  context.fillStyle = "#060d38";
  context.fillRect(0, 0, width, height);
  if (!sheet || matrix.columns === 0 || matrix.rows === 0) return;
  if (image?.width !== matrix.columns || image.height !== matrix.rows) {
    image = new ImageData(matrix.columns, matrix.rows);
    sheet.width = matrix.columns;
    sheet.height = matrix.rows;
  }
  pixelsOf(matrix, new Uint32Array(image.data.buffer));
  sheet.getContext("2d")?.putImageData(image, 0, 0);
  context.drawImage(sheet, 0, 0, width, height);
}
