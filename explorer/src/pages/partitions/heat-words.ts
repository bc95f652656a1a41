// A row of the map in words.

import type { HeatModel } from "./heat-model";

/** A row's part of the hash space, cut to what tells rows apart. */
export function boundWords(model: HeatModel, row: number): string {
  const cut = (bound: string | undefined, fallback: string) =>
    bound === undefined || bound === "" ? fallback : bound.slice(0, 6);
  return `${cut(model.rowBounds[row], "00")} – ${cut(model.rowBounds[row + 1], "FF")}`;
}
