//! Columns of CSV: their types out of a sample, and rows as items.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use csv::StringRecord;

use crate::data::{array, members};

/// The type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Type {
    String,
    Number,
    Boolean,
    Null,
    /// Objects and arrays.
    Json,
}

/// `COLUMN=TYPE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub column: String,
    pub kind: Type,
}

/// The columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    names: Vec<String>,
    types: Vec<Type>,
    /// The column that also becomes the item's id.
    id: Option<usize>,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (column, kind) = text.rsplit_once('=').ok_or("write COLUMN=TYPE, such as zip=string")?;
        let kind = Type::from_str(kind, true)
            .map_err(|_| format!("'{kind}' is no type: string, number, boolean, null or json"))?;
        Ok(Choice { column: column.to_owned(), kind })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl fmt::Display for Columns {
    /// `id string, total number`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, kind)) in self.names.iter().zip(&self.types).enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(formatter, "{separator}{name} {kind}")?;
        }
        Ok(())
    }
}

impl Columns {
    /// Types by the sample, except for those that are chosen.
    pub fn of(
        header: &StringRecord,
        sample: &[&StringRecord],
        choices: &[Choice],
        id_column: Option<&str>,
    ) -> Result<Columns, String> {
        let names: Vec<String> = header.iter().map(str::to_owned).collect();
        let listed = || names.join(", ");
        let place_of = |name: &str| names.iter().position(|found| found == name);
        for (place, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(format!("column {} of the first line has no name", place + 1));
            }
            if place_of(name) != Some(place) {
                return Err(format!("the column '{name}' is there twice"));
            }
        }
        let mut chosen = BTreeMap::new();
        for Choice { column, kind } in choices {
            let place = place_of(column)
                .ok_or_else(|| format!("--type: there is no column '{column}' among {}", listed()))?;
            chosen.insert(place, *kind);
        }
        let id = match id_column {
            None | Some("id") if place_of("id").is_some() => place_of("id"),
            None => {
                return Err(format!(
                    "there is no column 'id': name one with --id-column, out of {}",
                    listed()
                ));
            }
            Some(name) if place_of("id").is_some() => {
                return Err(format!("there is a column 'id' already: leave out --id-column {name}"));
            }
            Some(name) => Some(
                place_of(name)
                    .ok_or_else(|| format!("--id-column: there is no column '{name}' among {}", listed()))?,
            ),
        };
        let infer = |place: usize| {
            // An id is always text.
            let is_id = Some(place) == id && names[place] == "id";
            let cells = sample.iter().filter_map(|row| row.get(place));
            chosen.get(&place).copied().unwrap_or_else(|| if is_id { Type::String } else { inferred(cells) })
        };
        let types: Vec<Type> = (0..names.len()).map(infer).collect();
        assert_eq!(names.len(), types.len(), "each column has a type");
        Ok(Columns { names, types, id })
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|found| found == name)
    }

    /// A row as the text of an item, or the reason why it is none. Empty cells are properties that are not there.
    pub fn item(&self, row: &StringRecord) -> Result<String, String> {
        if row.len() != self.names.len() {
            return Err(format!(
                "the row has {} cells, and there are {} columns",
                row.len(),
                self.names.len()
            ));
        }
        let mut item = String::from("{");
        let mut push = |name: &str, value: &str| {
            let separator = if item.len() == 1 { "" } else { "," };
            item.push_str(&format!("{separator}{}:{value}", quoted(name)));
        };
        for (place, cell) in row.iter().enumerate() {
            let name = &self.names[place];
            if Some(place) == self.id {
                push("id", &quoted(cell));
            }
            if cell.is_empty() || Some(place) == self.id && name == "id" {
                continue;
            }
            let kind = self.types[place];
            let value = value(kind, cell).ok_or_else(|| {
                let shown: String = cell.chars().take(40).collect();
                format!("column {name}: '{shown}' is no {kind} (give --type {name}=string)")
            })?;
            push(name, &value);
        }
        item.push('}');
        Ok(item)
    }
}

/// The JSON of a cell; `null` is also allowed where the type is no string.
fn value(kind: Type, cell: &str) -> Option<String> {
    let fits = match kind {
        Type::String => return Some(quoted(cell)),
        _ if cell == "null" => true,
        Type::Number => is_number(cell),
        Type::Boolean => matches!(cell, "true" | "false"),
        Type::Json => is_nested(cell),
        Type::Null => false,
    };
    fits.then(|| cell.to_owned())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The narrowest type that all cells of a column have.
fn inferred<'c>(cells: impl Iterator<Item = &'c str>) -> Type {
    let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
    let all = |test: fn(&str) -> bool| cells.iter().all(|cell| *cell == "null" || test(cell));
    match cells.is_empty() {
        true => Type::String,
        false if all(|_| false) => Type::Null,
        false if all(|cell| matches!(cell, "true" | "false")) => Type::Boolean,
        false if all(is_exact_number) => Type::Number,
        false if all(is_nested) => Type::Json,
        false => Type::String,
    }
}

/// A number as JSON writes it: no zeros in front, no plus, no spaces.
fn is_number(cell: &str) -> bool {
    cell.bytes().next().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit())
        && serde_json::from_str::<&serde_json::value::RawValue>(cell).is_ok_and(|raw| raw.get() == cell)
}

/// Long numbers without a point are rather identifiers: a double could not hold their digits.
fn is_exact_number(cell: &str) -> bool {
    const DIGITS_OF_DOUBLE: usize = 15;
    let digits = cell.trim_start_matches('-');
    let is_long = digits.len() > DIGITS_OF_DOUBLE && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number(cell) && !is_long
}

fn is_nested(cell: &str) -> bool {
    match cell.as_bytes().first() {
        Some(b'{') => members(cell).is_some(),
        Some(b'[') => array(cell).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cells: &[&str]) -> StringRecord {
        StringRecord::from(cells.to_vec())
    }

    fn columns(
        header: &[&str],
        rows: &[&[&str]],
        choices: &[&str],
        id: Option<&str>,
    ) -> Result<Columns, String> {
        let rows: Vec<StringRecord> = rows.iter().map(|row| record(row)).collect();
        let choices: Vec<Choice> = choices.iter().map(|text| text.parse().expect("a choice")).collect();
        Columns::of(&record(header), &rows.iter().collect::<Vec<_>>(), &choices, id)
    }

    #[test]
    fn types_are_those_of_all_cells() {
        let header = ["id", "n", "zip", "b", "x", "j", "e", "m", "long"];
        let rows: [&[&str]; 2] = [
            &["1", "1.5e3", "01234", "true", "null", "{\"a\":1}", "", "1", "12345678901234567890"],
            &["2", "-0.1", "5", "false", "", "[1]", "", "x", "2"],
        ];
        let found = columns(&header, &rows, &[], None).expect("columns");
        assert_eq!(
            found.to_string(),
            "id string, n number, zip string, b boolean, x null, j json, e string, m string, long string"
        );
        let found =
            columns(&header, &rows, &["zip=string", "n=string", "long=number"], None).expect("columns");
        assert!(found.to_string().contains("n string") && found.to_string().contains("long number"));
    }

    #[test]
    fn rows_become_items_with_every_digit() {
        let rows: [&[&str]; 1] = [&["7", "1.10", "true", "{\"a\":1}", ""]];
        let found = columns(&["key", "n", "b", "j", "e"], &rows, &[], Some("key")).expect("columns");
        let item = |cells: &[&str]| found.item(&record(cells));
        assert_eq!(
            item(&["7", "1.10", "true", "{\"a\":1}", ""]).as_deref(),
            Ok(r#"{"id":"7","key":7,"n":1.10,"b":true,"j":{"a":1}}"#)
        );
        assert_eq!(
            item(&["8", "null", "", "null", "\"é"]).as_deref(),
            Ok(r#"{"id":"8","key":8,"n":null,"j":null,"e":"\"é"}"#)
        );
        for (cells, words) in [
            (["7", "x", "", "", ""].as_slice(), "column n: 'x' is no number (give --type n=string)"),
            (&["7", "", "yes", "", ""], "'yes' is no boolean"),
            (&["7"], "the row has 1 cells"),
        ] {
            let message = item(cells).expect_err("refused");
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn wrong_columns_are_refused_with_the_right_ones() {
        for (header, choices, id, words) in [
            (["a", "b"], [].as_slice(), None, "--id-column, out of a, b"),
            (["a", "b"], &[], Some("c"), "no column 'c' among a, b"),
            (["id", "b"], &[], Some("b"), "leave out --id-column"),
            (["id", "id"], &[], None, "there twice"),
            (["id", ""], &[], None, "column 2 of the first line has no name"),
            (["id", "b"], &["c=string"], None, "no column 'c'"),
        ] {
            let message = columns(&header, &[], choices, id).expect_err("refused");
            assert!(message.contains(words), "{message}");
        }
        assert!("a".parse::<Choice>().is_err() && "a=date".parse::<Choice>().is_err());
    }
}
