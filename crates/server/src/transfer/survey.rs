//! The first look at a file, before anything is written: number of items, size, types of columns, and whether the items have ids and keys.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use csv::StringRecord;

use super::columns::{Choice, Columns};
use super::formats::{FileFormat, STANDARD};
use super::records::{Raw, Records, Shape};
use crate::data::value_at;
use crate::operate::{bytes, counted};

/// The file of an import, and how it is read.
#[derive(Debug)]
pub struct Input {
    pub file: PathBuf,
    pub format: FileFormat,
    pub delimiter: u8,
    pub choices: Vec<Choice>,
    pub id_column: Option<String>,
    /// Whether a row of CSV that is no item is an error before anything is written.
    pub refuses_rows: bool,
}

/// A file that can be imported.
pub struct Survey {
    pub records: Records,
    pub shape: Shape,
    /// Known for files, which are read twice.
    pub items: Option<u64>,
    pub size_bytes: Option<u64>,
    /// Items of the sample without one of the properties of the partition key, and items of the sample.
    pub keyless: (u64, u64),
}

impl Input {
    pub fn is_standard(&self) -> bool {
        self.file == Path::new(STANDARD)
    }

    /// `paths` are those of the partition key.
    pub fn survey(&self, paths: &[String]) -> Result<Survey, String> {
        let size_bytes = match self.is_standard() {
            true => None,
            false => {
                let file = std::fs::metadata(&self.file).map_err(|error| self.unreadable(&error))?;
                file.is_file().then_some(file.len())
            }
        };
        let survey = self.look(paths, size_bytes).and_then(|mut survey| {
            if size_bytes.is_some() {
                survey.items = Some(self.count(&survey.shape)?);
            }
            Ok(survey)
        });
        survey.map_err(|error| self.in_file(&error))
    }

    fn look(&self, paths: &[String], size_bytes: Option<u64>) -> Result<Survey, String> {
        let mut records = self.open()?;
        let header = records.header()?;
        let sample = records.sample()?;
        let shape = match &header {
            None => Shape::Objects { id: self.id_column.clone() },
            // An empty file, as the export of an empty container is.
            Some(header) if header.is_empty() => Shape::Objects { id: None },
            Some(header) => {
                let rows: Vec<&StringRecord> = sample
                    .iter()
                    .filter_map(|raw| if let Raw::Row { cells, .. } = raw { Some(cells) } else { None })
                    .collect();
                let columns = Columns::of(header, &rows, &self.choices, self.id_column.as_deref(), paths)?;
                for path in paths {
                    let name = path.split('/').nth(1).unwrap_or_default().trim_matches('"');
                    if !columns.has(name) && name != "id" {
                        return Err(format!(
                            "the container's partition key is {path}, and there is no column '{name}' among {}",
                            header.iter().collect::<Vec<_>>().join(", ")
                        ));
                    }
                }
                Shape::Rows(columns)
            }
        };
        let items_of_sample: Vec<String> =
            sample.iter().filter_map(|raw| Some(shape.entry(raw.clone()).ok()?.item)).collect();
        let number = items_of_sample.len() as u64;
        let lacking =
            |path: &str| items_of_sample.iter().filter(|item| value_at(item, path).is_none()).count() as u64;
        if number > 0 && lacking("/id") == number {
            return Err("the items have no 'id': name another property with --id-column".to_owned());
        }
        let keyless = paths.iter().map(|path| lacking(path)).max().unwrap_or_default();
        if number > 0 && keyless == number {
            return Err(format!(
                "no item has the container's partition key {}: another property may be meant, or another container",
                paths.join(", ")
            ));
        }
        Ok(Survey { records, shape, items: None, size_bytes, keyless: (keyless, number) })
    }

    fn count(&self, shape: &Shape) -> Result<u64, String> {
        let mut records = self.open()?;
        let _header = records.header()?;
        let checks_rows = self.refuses_rows && matches!(shape, Shape::Rows(_));
        let mut number = 0;
        while let Some(raw) = records.next()? {
            number += 1;
            if checks_rows && let Err(refusal) = shape.entry(raw) {
                return Err(format!(
                    "line {}: {}; --on-error skip passes over refused items",
                    refusal.line, refusal.reason
                ));
            }
        }
        Ok(number)
    }

    fn open(&self) -> Result<Records, String> {
        if self.is_standard() {
            return Records::open(Box::new(io::stdin()), self.format, self.delimiter);
        }
        let file = File::open(&self.file).map_err(|error| format!("it cannot be read: {error}"))?;
        Records::open(Box::new(file), self.format, self.delimiter)
    }

    fn unreadable(&self, error: &io::Error) -> String {
        self.in_file(&format!("it cannot be read: {error}"))
    }

    fn in_file(&self, message: &str) -> String {
        match self.is_standard() {
            true => format!("standard input: {message}"),
            false => format!("'{}': {message}", self.file.display()),
        }
    }
}

impl Survey {
    /// Number, size and types for a reader.
    pub fn lines(&self) -> Vec<String> {
        let items =
            self.items.map_or("an unknown number of items".to_owned(), |items| counted(items, "item"));
        let size = self.size_bytes.map(|size| format!(", {}", bytes(size)));
        let mut lines = vec![format!("{items}{}", size.unwrap_or_default())];
        if let Shape::Rows(columns) = &self.shape {
            lines.push(format!("columns: {columns}"));
        }
        if let (lacking @ 1.., number) = self.keyless {
            lines.push(format!("warning: {lacking} of the first {number} items lack the partition key"));
        }
        lines
    }
}
