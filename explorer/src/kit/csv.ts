// CSV by RFC 4180. Cells that a spreadsheet would run as a formula are disarmed with an apostrophe, unless not wanted.

const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

export function csvCell(text: string, options: { disarm: boolean }): string {
  const isFormula = options.disarm && FORMULA.test(text) && !NUMBER.test(text);
  const cell = isFormula ? `'${text}` : text;
  return /[",\r\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell;
}

export function csvLine(cells: string[], options: { disarm: boolean }): string {
  return `${cells.map((cell) => csvCell(cell, options)).join(",")}\r\n`;
}
