//! Rows of a query for a reader or a program, and the figures below them.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use clap::ValueEnum;
use serde_json::value::RawValue;

use crate::data::{Page, SYSTEM, cell, compact, is_item, members};
use crate::number_text::printable;
use crate::operate::{Paint, aligned, counted, thousands};

/// The column of rows that are no objects.
const VALUE: &str = "value";
/// Columns of a table.
const COLUMNS_MAX: usize = 200;
/// Characters that a cell keeps where a line of the terminal is too short for all columns.
const CELL_MIN: usize = 12;
/// Partitions that the figures name.
const PARTITIONS_NAMED: usize = 8;
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns in the order in which they first appear; wide values are cut
    Table,
    /// One array
    Json,
    /// One line for each row
    Jsonl,
    /// A line with the names of the columns, then one for each row
    Csv,
}

/// The choices of how rows are shown.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub format: Format,
    /// Characters of a cell, 0 for all.
    pub width: usize,
    /// Characters of a line of the terminal, where there is one.
    pub line: Option<usize>,
    pub has_system: bool,
    pub paint: Paint,
}

/// Sums over the pages of an answer.
#[derive(Debug, Default)]
pub struct Figures {
    pub rows: u64,
    pages: u64,
    charge: f64,
    elapsed_ms: f64,
    partitions: BTreeSet<String>,
}

impl Figures {
    pub fn add(&mut self, page: &Page) {
        self.rows += page.rows.len() as u64;
        self.pages += 1;
        self.charge += page.charge;
        self.elapsed_ms += page.elapsed_ms;
        self.partitions.extend(page.ranges.iter().map(|range| range.id.clone()));
    }

    /// `3 rows, 2.83 RU, 2 partitions (0, 1), 1 page, 1.2 ms`.
    pub fn words(&self) -> String {
        let mut ids: Vec<&str> = self.partitions.iter().map(String::as_str).collect();
        ids.sort_by_key(|id| (id.len(), *id));
        let more = if ids.len() > PARTITIONS_NAMED { ", …" } else { "" };
        ids.truncate(PARTITIONS_NAMED);
        let named = if ids.is_empty() { String::new() } else { format!(" ({}{more})", ids.join(", ")) };
        format!(
            "{}, {:.2} RU, {}{named}, {}, {:.1} ms",
            counted(self.rows, "row"),
            self.charge,
            counted(self.partitions.len() as u64, "partition"),
            counted(self.pages, "page"),
            self.elapsed_ms,
        )
    }
}

/// Prints rows as they come, or collects them where the whole answer decides on the columns.
pub struct Printer {
    look: Look,
    collected: Vec<Box<RawValue>>,
    collected_bytes: usize,
    is_first: bool,
}

impl Printer {
    pub fn new(look: Look) -> Printer {
        Printer { look, collected: Vec::new(), collected_bytes: 0, is_first: true }
    }

    /// Bytes that are in memory until the end.
    pub fn collected_bytes(&self) -> usize {
        self.collected_bytes
    }

    pub fn rows(&mut self, rows: Vec<Box<RawValue>>, out: &mut dyn Write) -> io::Result<()> {
        match self.look.format {
            Format::Table | Format::Csv => {
                self.collected_bytes += rows.iter().map(|row| row.get().len()).sum::<usize>();
                self.collected.extend(rows);
            }
            Format::Jsonl => {
                for row in rows {
                    writeln!(out, "{}", compact(row.get()))?;
                }
            }
            Format::Json => {
                for row in rows {
                    let before = if std::mem::take(&mut self.is_first) { "[\n" } else { ",\n" };
                    write!(out, "{before}  {}", row.get())?;
                }
            }
        }
        Ok(())
    }

    pub fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        match self.look.format {
            Format::Table => write!(out, "{}", self.look.paint.table(&self.table())),
            Format::Csv => self.csv(out),
            Format::Json if self.is_first => writeln!(out, "[]"),
            Format::Json => writeln!(out, "\n]"),
            Format::Jsonl => Ok(()),
        }
    }

    fn table(&self) -> String {
        let mut grid = Grid::default();
        for row in &self.collected {
            grid.add(row.get(), !self.look.has_system);
        }
        if grid.names.is_empty() {
            return String::new();
        }
        let shown = grid.names.len().min(COLUMNS_MAX);
        let width = self.look.line.map_or(self.look.width, |line| grid.width(shown, self.look.width, line));
        let names = grid.names[..shown].iter().map(|name| cut(name, width)).collect();
        let rows = grid.rows.iter().map(|row| {
            (0..shown).map(|column| cut(row.get(column).map_or("", String::as_str), width)).collect()
        });
        let rows: Vec<Vec<String>> = std::iter::once(names).chain(rows).collect();
        let mut text: String = aligned(&rows, shown).into_iter().map(|line| line + "\n").collect();
        if shown < grid.names.len() {
            let left = (grid.names.len() - shown) as u64;
            text.push_str(&format!("… and {} more columns: use --format jsonl\n", thousands(left)));
        }
        text
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut grid = Grid::default();
        for row in &self.collected {
            grid.add(row.get(), false);
        }
        let mut writer = csv::Writer::from_writer(out);
        if grid.names.is_empty() {
            return Ok(());
        }
        // A file has every character, a terminal none that commands it.
        let shown = |text: &str| match self.look.line {
            Some(_) => printable(text),
            None => text.to_owned(),
        };
        writer.write_record(grid.names.iter().map(|name| shown(name)))?;
        for row in &grid.rows {
            let cells = (0..grid.names.len()).map(|column| row.get(column).map_or("", String::as_str));
            writer.write_record(cells.map(shown))?;
        }
        writer.flush()
    }
}

/// Cells by row and column.
#[derive(Debug, Default)]
struct Grid {
    names: Vec<String>,
    columns: HashMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    fn add(&mut self, row: &str, hides_system: bool) {
        let mut cells = Vec::new();
        match members(row) {
            Some(members) => {
                let hides_system = hides_system && is_item(&members);
                for (name, value) in members {
                    if !(hides_system && SYSTEM.contains(&name.as_str())) {
                        self.set(&mut cells, &name, cell(value.get()));
                    }
                }
            }
            None => self.set(&mut cells, VALUE, cell(row)),
        }
        self.rows.push(cells);
    }

    /// The characters that a cell may have for a line of the terminal to hold the first `shown` columns.
    fn width(&self, shown: usize, most: usize, line: usize) -> usize {
        let length = |text: Option<&String>| text.map_or(0, |text| text.chars().count());
        let widths: Vec<usize> = (0..shown)
            .map(|column| {
                let cells = self.rows.iter().map(|row| length(row.get(column))).max();
                cells.unwrap_or(0).max(length(self.names.get(column)))
            })
            .collect();
        let widest = widths.iter().copied().max().unwrap_or(0);
        let most = if most == 0 { widest } else { most.min(widest) };
        let fits = |cell: &usize| {
            let cells: usize = widths.iter().map(|width| width.min(cell)).sum();
            cells + 2 * shown.saturating_sub(1) <= line
        };
        (CELL_MIN..=most).rev().find(fits).unwrap_or(most.min(CELL_MIN))
    }

    fn set(&mut self, cells: &mut Vec<String>, name: &str, text: String) {
        let column = match self.columns.get(name) {
            Some(column) => *column,
            None => {
                self.names.push(name.to_owned());
                self.columns.insert(name.to_owned(), self.names.len() - 1);
                self.names.len() - 1
            }
        };
        if cells.len() <= column {
            cells.resize(column + 1, String::new());
        }
        cells[column] = text;
    }
}

/// Characters of a line, where rows are printed to a terminal.
pub fn terminal_line() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// In one line of at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    let shown = |character: char| if character.is_control() { '·' } else { character };
    if width == 0 || text.chars().nth(width).is_none() {
        return text.chars().map(shown).collect();
    }
    text.chars().take(width - 1).map(shown).chain(std::iter::once('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: Format, rows: &[&str]) -> String {
        let look = Look { format, width: 8, line: None, has_system: false, paint: Paint::default() };
        let mut printer = Printer::new(look);
        let mut out = Vec::new();
        let rows = rows.iter().map(|row| RawValue::from_string((*row).to_owned()).expect("JSON"));
        printer.rows(rows.collect(), &mut out).expect("a buffer takes it");
        printer.finish(&mut out).expect("a buffer takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn tables_have_columns_in_the_order_of_their_first_appearance() {
        let rows = [r#"{"b":1,"a":"x\ny"}"#, r#"{"a":null,"c":{"d":[1,2,3]}}"#, "7"];
        assert_eq!(
            printed(Format::Table, &rows),
            "b  a     c         value\n1  x·y\n   null  {\"d\":[1…\n                   7\n"
        );
        assert_eq!(printed(Format::Table, &[]), "");
        let item = r#"{"id":"1","_rid":"r","_self":"s","_etag":"e","_ts":1}"#;
        assert_eq!(printed(Format::Table, &[item]), "id\n1\n");
        assert_eq!(printed(Format::Table, &[r#"{"_ts":1}"#]), "_ts\n1\n");
    }

    #[test]
    fn cells_are_cut_so_that_a_line_holds_all_columns() {
        let mut grid = Grid::default();
        let wide = |name: &str| {
            format!("{{\"{name}\":\"{}\",\"b\":\"{}\",\"c\":1}}", "x".repeat(50), "y".repeat(20))
        };
        grid.add(&wide("a"), false);
        // 50 + 20 + 1, and two spaces twice.
        assert_eq!(grid.width(3, 0, 75), 50);
        assert_eq!(grid.width(3, 40, 75), 40);
        assert_eq!(grid.width(3, 40, 60), 35);
        assert_eq!(grid.width(3, 40, 45), 20);
        assert_eq!(grid.width(3, 40, 35), 15);
        assert_eq!(grid.width(3, 40, 10), CELL_MIN, "longer lines are left to the terminal");
        assert_eq!(Grid::default().width(0, 40, 80), 0);
    }

    #[test]
    fn programs_get_every_digit() {
        let rows = [r#"{"n":12345678901234567890, "t":"a,\"b\""}"#, r#"{"m":1.50}"#];
        assert_eq!(
            printed(Format::Json, &rows),
            "[\n  {\"n\":12345678901234567890, \"t\":\"a,\\\"b\\\"\"},\n  {\"m\":1.50}\n]\n"
        );
        assert_eq!(
            printed(Format::Jsonl, &rows),
            "{\"n\":12345678901234567890,\"t\":\"a,\\\"b\\\"\"}\n{\"m\":1.50}\n"
        );
        assert_eq!(printed(Format::Csv, &rows), "n,t,m\n12345678901234567890,\"a,\"\"b\"\"\",\n,,1.50\n");
        assert_eq!([printed(Format::Json, &[]), printed(Format::Csv, &[])], ["[]\n", ""]);
    }

    #[test]
    fn csv_at_a_terminal_commands_nothing() {
        let row = RawValue::from_string(r#"{"\u001b[2J":"\u001b]0;x\u0007\n"}"#.to_owned()).expect("JSON");
        let printed = |line| {
            let look =
                Look { format: Format::Csv, width: 8, line, has_system: false, paint: Paint::default() };
            let (mut printer, mut out) = (Printer::new(look), Vec::new());
            printer.rows(vec![row.clone()], &mut out).expect("a buffer takes it");
            printer.finish(&mut out).expect("a buffer takes it");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(printed(None), "\u{1b}[2J\n\"\u{1b}]0;x\u{7}\n\"\n");
        assert_eq!(printed(Some(80)), "\\u{1b}[2J\n\"\\u{1b}]0;x\\u{7}\n\"\n");
    }

    #[test]
    fn figures_name_the_partitions() {
        let page = |ids: &[&str]| Page {
            charge: 1.5,
            continuation: None,
            elapsed_ms: 2.0,
            ranges: serde_json::from_value(ids.iter().map(|id| serde_json::json!({ "id": id })).collect())
                .expect("ranges"),
            rows: vec![],
        };
        let mut figures = Figures::default();
        figures.add(&page(&["10", "2"]));
        figures.add(&page(&["2"]));
        assert_eq!(figures.words(), "0 rows, 3.00 RU, 2 partitions (2, 10), 2 pages, 4.0 ms");
    }
}
