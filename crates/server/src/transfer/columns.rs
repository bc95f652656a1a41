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
    /// Types that follow from the sample: no later value may lose its text by them.
    is_inferred: Vec<bool>,
    /// Why a column of the id or the partition key has its type.
    remarks: Vec<String>,
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
    /// `id string, customer string (partition key), total number`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, kind)) in self.names.iter().zip(&self.types).enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(formatter, "{separator}{name} {kind}{}", self.remarks[place])?;
        }
        Ok(())
    }
}

impl Columns {
    /// Types by the sample, except for those that are chosen. Id and partition key, whose paths are given, stay text.
    pub fn of(
        header: &StringRecord,
        sample: &[&StringRecord],
        choices: &[Choice],
        id_column: Option<&str>,
        paths: &[String],
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
        let (mut types, mut remarks) = (Vec::new(), Vec::new());
        for (place, name) in names.iter().enumerate() {
            let found = inferred(sample.iter().filter_map(|row| row.get(place)));
            let is_key = paths.iter().any(|path| property_of(path) == Some(name));
            let role = match is_key {
                true => Some("partition key"),
                false => (Some(place) == id).then_some("id"),
            };
            types.push(match (chosen.get(&place), role) {
                (Some(kind), _) => *kind,
                (None, Some(_)) => Type::String,
                (None, None) => found,
            });
            remarks.push(match role {
                Some(role) if name != "id" && found != Type::String && !chosen.contains_key(&place) => {
                    format!(" ({role}; --type {name}={found} decides otherwise)")
                }
                Some(role) if is_key || name != "id" => format!(" ({role})"),
                _ => String::new(),
            });
        }
        let is_inferred: Vec<bool> = (0..names.len()).map(|place| !chosen.contains_key(&place)).collect();
        assert_eq!((names.len(), names.len()), (types.len(), remarks.len()), "each column has a type");
        Ok(Columns { names, types, is_inferred, remarks, id })
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
            let shown = || cell.chars().take(40).collect::<String>();
            let value = value(kind, cell).ok_or_else(|| {
                format!("column {name}: '{}' is no {kind} (give --type {name}=string)", shown())
            })?;
            if self.is_inferred[place] && kind == Type::Number && cell != "null" && !keeps_its_text(cell) {
                return Err(format!(
                    "column {name}: the first rows are numbers, and '{}' would lose its text as a number (give --type {name}=string)",
                    shown()
                ));
            }
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
        false if all(keeps_its_text) => Type::Number,
        false if all(is_nested) => Type::Json,
        false => Type::String,
    }
}

/// A number as JSON writes it: no zeros in front, no plus, no spaces.
fn is_number(cell: &str) -> bool {
    cell.bytes().next().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit())
        && serde_json::from_str::<&serde_json::value::RawValue>(cell).is_ok_and(|raw| raw.get() == cell)
}

/// Whether a number is printed as the same text again. Long whole numbers are rather identifiers: a double could not hold their digits.
fn keeps_its_text(cell: &str) -> bool {
    const DIGITS_OF_WHOLE: usize = 15;
    const DIGITS_OF_FRACTION: usize = 17;
    /// Smaller numbers are printed with an exponent.
    const SMALLEST: f64 = 1e-5;
    if !is_number(cell) || cell == "-0" || cell.contains(['e', 'E']) {
        return false;
    }
    let digits = cell.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0').count();
    if !cell.contains('.') {
        return digits <= DIGITS_OF_WHOLE;
    }
    let same = |number: f64| number.abs() >= SMALLEST && number.to_string() == cell;
    digits <= DIGITS_OF_FRACTION && cell.parse().is_ok_and(same)
}

/// The property of a path of one name, such as `/customer`.
fn property_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?;
    (!name.contains('/')).then(|| name.trim_matches('"'))
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
        Columns::of(&record(header), &rows.iter().collect::<Vec<_>>(), &choices, id, &["/pk".to_owned()])
    }

    #[test]
    fn types_are_those_of_all_cells() {
        let header = ["id", "n", "zip", "b", "x", "j", "e", "m", "long"];
        let rows: [&[&str]; 2] = [
            &["1", "1.5", "01234", "true", "null", "{\"a\":1}", "", "1", "12345678901234567890"],
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
    fn numbers_are_only_texts_that_are_printed_again() {
        for text in ["0", "-7", "0.1", "-12.75", "123456789012345", "0.00012", "1234567.8901234"] {
            assert!(keeps_its_text(text), "{text}");
        }
        for text in [
            "+1",
            "1.10",
            "1.0",
            "1e3",
            "1E3",
            "-0",
            "-0.0",
            "01",
            ".5",
            "1.",
            "1234567890123456",
            "0.000001",
            "0.12345678901234567",
            "0.1000000000000000055",
            "null",
            "",
        ] {
            assert!(!keeps_its_text(text), "{text}");
        }
        let header = ["id", "n"];
        let found = columns(&header, &[&["1", "2.5"], &["2", "1.10"]], &[], None).expect("columns");
        assert_eq!(found.to_string(), "id string, n string");
        let found = columns(&header, &[&["1", "2.5"]], &[], None).expect("columns");
        for late in ["1.10", "1e3", "12345678901234567890"] {
            let message = found.item(&record(&["3", late])).expect_err(late);
            assert!(message.contains(late) && message.contains("--type n=string"), "{message}");
        }
        let chosen = columns(&header, &[&["1", "2.5"]], &["n=number"], None).expect("columns");
        assert_eq!(chosen.item(&record(&["3", "1.10"])).as_deref(), Ok(r#"{"id":"3","n":1.10}"#));
    }

    #[test]
    fn id_and_partition_key_stay_text() {
        let header = ["order", "pk", "n"];
        let rows: [&[&str]; 1] = [&["7", "8", "9"]];
        let found = columns(&header, &rows, &[], Some("order")).expect("columns");
        assert_eq!(
            found.to_string(),
            "order string (id; --type order=number decides otherwise), pk string (partition key; --type pk=number decides otherwise), n number"
        );
        assert_eq!(found.item(&record(rows[0])).as_deref(), Ok(r#"{"id":"7","order":"7","pk":"8","n":9}"#));
        let found = columns(&header, &rows, &["pk=number"], Some("order")).expect("columns");
        assert!(found.to_string().ends_with("pk number (partition key), n number"));
    }

    #[test]
    fn rows_become_items_with_every_digit() {
        let rows: [&[&str]; 1] = [&["7", "1.25", "true", "{\"a\":1}", ""]];
        let found = columns(&["key", "n", "b", "j", "e"], &rows, &[], Some("key")).expect("columns");
        let item = |cells: &[&str]| found.item(&record(cells));
        assert_eq!(
            item(&["7", "1.25", "true", "{\"a\":1}", ""]).as_deref(),
            Ok(r#"{"id":"7","key":"7","n":1.25,"b":true,"j":{"a":1}}"#)
        );
        assert_eq!(
            item(&["8", "null", "", "null", "\"é"]).as_deref(),
            Ok(r#"{"id":"8","key":"8","n":null,"j":null,"e":"\"é"}"#)
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
