// Counts in three digits or so, where there is little room.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

/** 1.3 M, 812 k, 97. */
export function short(value: number): string {
  if (value >= 1e9) return `${grouped.format(value / 1e9)} G`;
  if (value >= 1e6) return `${grouped.format(value / 1e6)} M`;
  if (value >= 1e4) return `${grouped.format(value / 1e3)} k`;
  return grouped.format(Math.round(value));
}
