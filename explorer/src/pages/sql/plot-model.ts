// A result as a plot: labels of the first column, and a series for each column of numbers behind it.

import { decodeString } from "../../client/json";

export interface PlotSeries {
  name: string;
  values: (number | null)[];
}

export interface PlotModel {
  labels: string[];
  series: PlotSeries[];
  /** The first column goes on from row to row: dates or numbers in order. */
  isOrdered: boolean;
}

export const POINTS_MAX = 400;
const SERIES_MAX = 6;
const NUMBER = /^-?\d/;
const DATE = /^\d{4}-\d\d(?:-\d\d|$)/;

const textOf = (token: string): string => {
  if (token[0] !== '"') return token === "null" ? "NULL" : token;
  try {
    return decodeString(token);
  } catch {
    return token;
  }
};

/** Nothing where no column behind the first has numbers. */
export function plotOf(columns: { name: string }[], rows: string[][]): PlotModel | null {
  const shown = rows.slice(0, POINTS_MAX);
  const series = columns.slice(1).flatMap(({ name }, at) => {
    const tokens = shown.map((row) => row[at + 1] ?? "null");
    const isNumber =
      tokens.every((token) => token === "null" || NUMBER.test(token)) && tokens.some((token) => token !== "null");
    return isNumber ? [{ name, values: tokens.map((token) => (token === "null" ? null : Number(token))) }] : [];
  });
  if (series.length === 0 || shown.length === 0) return null;
  const labels = shown.map((row) => textOf(row[0] ?? "null"));
  const isRising = labels.every((label, at) => at === 0 || follows(labels[at - 1] as string, label));
  const isOrdered = shown.length > 1 && isRising && labels.every((label) => NUMBER.test(label) || DATE.test(label));
  return { labels, series: series.slice(0, SERIES_MAX), isOrdered };
}

function follows(before: string, label: string): boolean {
  const [left, right] = [Number(before), Number(label)];
  return Number.isNaN(left) || Number.isNaN(right) ? before <= label : left <= right;
}

export interface Scale {
  least: number;
  most: number;
}

/** From zero, or from the least value where that is below. */
export function scaleOf(series: PlotSeries[]): Scale {
  const values = series.flatMap(({ values }) => values.filter((value): value is number => value !== null));
  const most = Math.max(0, ...values);
  const least = Math.min(0, ...values);
  return most === least ? { least, most: least + 1 } : { least, most };
}
