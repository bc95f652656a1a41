// Reads CSV by RFC 4180 as it comes, piece by piece: quoted cells with commas, quotes and line ends in them.

export interface CsvRow {
  cells: { text: string; isQuoted: boolean }[];
}

export class CsvReader {
  private text = "";
  private isQuoted = false;
  private isInside = false;
  /** A quote inside a quoted cell: its end, or half of a doubled one. */
  private isAtQuote = false;
  private afterReturn = false;
  private row: CsvRow["cells"] = [];

  /** The rows that are whole by now. */
  push(piece: string): CsvRow[] {
    const rows: CsvRow[] = [];
    for (let at = 0; at < piece.length; at++) {
      const unit = piece[at] as string;
      if (this.isInside) {
        if (unit !== '"') {
          // Whole stretches at once: cells may be large.
          const end = piece.indexOf('"', at);
          const stop = end < 0 ? piece.length : end;
          this.text += piece.slice(at, stop);
          at = stop - 1;
        } else {
          this.isInside = false;
          this.isAtQuote = true;
        }
        continue;
      }
      const isNewLine = unit === "\n" && this.afterReturn;
      this.afterReturn = unit === "\r";
      if (isNewLine) continue;
      if (this.isAtQuote && unit === '"') {
        this.text += '"';
        this.isInside = true;
        this.isAtQuote = false;
        continue;
      }
      this.isAtQuote = false;
      if (unit === '"' && this.text === "" && !this.isQuoted) this.isInside = this.isQuoted = true;
      else if (unit === ",") this.endCell();
      else if (unit === "\n" || unit === "\r") this.endRow(rows);
      else this.text += unit;
    }
    return rows;
  }

  /** The last row, which need not end with a line end. */
  end(): CsvRow[] {
    const rows: CsvRow[] = [];
    if (this.isInside) throw new SyntaxError("a quoted cell does not end");
    this.endRow(rows);
    return rows;
  }

  private endCell(): void {
    this.row.push({ text: this.text, isQuoted: this.isQuoted });
    this.text = "";
    this.isQuoted = false;
  }

  private endRow(rows: CsvRow[]): void {
    const isBlank = this.row.length === 0 && this.text === "" && !this.isQuoted;
    this.endCell();
    if (!isBlank) rows.push({ cells: this.row });
    this.row = [];
  }
}
