// Numbers for people: with units, tabular, and no more digits than mean something.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const twoDigits = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

export const integer = (value: number): string => grouped.format(value);

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? grouped.format(value) : oneDigit.format(value)} ${units[unit]}`;
}

export const ru = (value: number): string => `${twoDigits.format(value)} RU`;

/** RU/s: whole from ten on. */
export const rate = (value: number): string => (value >= 10 ? grouped : oneDigit).format(value);

export const percent = (share: number): string => {
  const value = share * 100;
  return `${value > 0 && value < 10 ? oneDigit.format(value) : grouped.format(value)} %`;
};

export function milliseconds(value: number): string {
  if (value < 1) return `${twoDigits.format(value)} ms`;
  if (value < 1000) return `${oneDigit.format(value)} ms`;
  return `${oneDigit.format(value / 1000)} s`;
}

const pad = (value: number) => String(value).padStart(2, "0");

/** 12:01:07, in the reader's time zone. */
export function clock(time: Date): string {
  return `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
}

export function day(time: Date): string {
  return `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())}`;
}

/** Seconds, milliseconds or a text, as servers write times. */
export function timeOf(value: number | string): Date {
  if (typeof value === "string") return new Date(value);
  return new Date(value < 1e11 ? value * 1000 : value);
}

/** One word in the plural by its count. */
export const plural = (count: number, word: string): string => `${integer(count)} ${word}${count === 1 ? "" : "s"}`;
