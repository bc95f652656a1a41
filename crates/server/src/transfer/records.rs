//! The items of a file one after the other, out of any format, with a sample in front that is looked at before anything is written.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use csv::StringRecord;

use super::columns::Columns;
use super::formats::FileFormat;
use super::quotes::Quotes;
use super::splitter::{ITEM_BYTES_MAX, Piece, Splitter};
use crate::data::{members, text_of};

const BUFFER_BYTES: usize = 256 << 10;
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];
/// Records and bytes that types and keys are found by.
const SAMPLE_RECORDS: usize = 1_000;
const SAMPLE_BYTES: usize = 4 << 20;

type Source = Box<dyn Read + Send>;

/// A record as it is in the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    Text(Piece),
    Row {
        line: u64,
        cells: StringRecord,
    },
    /// Text that is no record, and the reason.
    Broken {
        line: u64,
        reason: String,
    },
}

/// An item to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub line: u64,
    /// JSON.
    pub item: String,
}

/// A record that is no item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub line: u64,
    pub reason: String,
    /// The record's text.
    pub text: String,
}

/// How records become items.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Objects; the named property also becomes the id.
    Objects {
        id: Option<String>,
    },
    Rows(Columns),
}

enum Reader {
    Objects(Splitter<Source>),
    Lines { reader: BufReader<Source>, line: u64 },
    Rows { reader: Box<csv::Reader<Bounded>>, left: Arc<AtomicUsize> },
}

/// A source that ends a record which is too long, and text whose quotes are wrong.
struct Bounded {
    source: Source,
    quotes: Quotes,
    /// Bytes that may be read before the next record begins.
    left: Arc<AtomicUsize>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.load(Ordering::Relaxed) == 0 {
            let limit = ITEM_BYTES_MAX >> 20;
            let line = self.quotes.open_since().map_or(String::new(), |line| format!("line {line}: "));
            let message = format!("{line}a row has more than {limit} MiB: is a quote left open?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let length = self.source.read(buffer)?;
        let checked = match length {
            0 if !buffer.is_empty() => self.quotes.finish(),
            _ => self.quotes.pass(&buffer[..length]),
        };
        checked.map_err(|message| io::Error::new(io::ErrorKind::InvalidData, message))?;
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(length), Ordering::Relaxed);
        Ok(length)
    }
}

pub struct Records {
    reader: Reader,
    waiting: VecDeque<Raw>,
}

impl Records {
    pub fn open(mut source: Source, format: FileFormat, delimiter: u8) -> Result<Records, String> {
        let mut head = Vec::new();
        source.by_ref().take(3).read_to_end(&mut head).map_err(|error| unreadable(&error))?;
        if head == BYTE_ORDER_MARK {
            head.clear();
        }
        let source: Source = Box::new(Cursor::new(head).chain(source));
        let reader = match format {
            FileFormat::Json => {
                Reader::Objects(Splitter::new(BufReader::with_capacity(BUFFER_BYTES, source)))
            }
            FileFormat::Jsonl => {
                Reader::Lines { reader: BufReader::with_capacity(BUFFER_BYTES, source), line: 0 }
            }
            FileFormat::Csv => {
                let mut builder = csv::ReaderBuilder::new();
                builder.flexible(true).delimiter(delimiter).buffer_capacity(BUFFER_BYTES);
                let left = Arc::new(AtomicUsize::new(ITEM_BYTES_MAX));
                let source = Bounded { source, quotes: Quotes::new(delimiter), left: left.clone() };
                Reader::Rows { reader: Box::new(builder.from_reader(source)), left }
            }
        };
        Ok(Records { reader, waiting: VecDeque::new() })
    }

    /// The names of the columns of CSV.
    pub fn header(&mut self) -> Result<Option<StringRecord>, String> {
        match &mut self.reader {
            Reader::Rows { reader, .. } => {
                let header = reader.headers().map_err(|error| match error.is_io_error() {
                    true => unreadable_rows(&error),
                    false => "line 1: the names of the columns are no UTF-8 text".to_owned(),
                })?;
                Ok(Some(header.clone()))
            }
            _ => Ok(None),
        }
    }

    /// Reads a bounded number of records ahead. They are still read by [`Records::next`].
    pub fn sample(&mut self) -> Result<&VecDeque<Raw>, String> {
        let mut size_bytes = 0;
        while self.waiting.len() < SAMPLE_RECORDS && size_bytes < SAMPLE_BYTES {
            let Some(raw) = self.read()? else { break };
            size_bytes += match &raw {
                Raw::Text(piece) => piece.text.len(),
                Raw::Row { cells, .. } => cells.as_slice().len(),
                Raw::Broken { .. } => 0,
            };
            self.waiting.push_back(raw);
        }
        Ok(&self.waiting)
    }

    /// An error leaves no place to continue at.
    pub fn next(&mut self) -> Result<Option<Raw>, String> {
        match self.waiting.pop_front() {
            Some(raw) => Ok(Some(raw)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<Raw>, String> {
        match &mut self.reader {
            Reader::Objects(splitter) => Ok(splitter.next()?.map(Raw::Text)),
            Reader::Lines { reader, line } => read_line(reader, line),
            Reader::Rows { reader, left } => {
                left.store(ITEM_BYTES_MAX, Ordering::Relaxed);
                let mut cells = StringRecord::new();
                let line = reader.position().line();
                match reader.read_record(&mut cells) {
                    Ok(false) => Ok(None),
                    Ok(true) => {
                        let line = cells.position().map_or(line, csv::Position::line);
                        Ok(Some(Raw::Row { line, cells }))
                    }
                    Err(error) if error.is_io_error() => Err(unreadable_rows(&error)),
                    Err(_) => Ok(Some(Raw::Broken { line, reason: "the row is no UTF-8 text".into() })),
                }
            }
        }
    }
}

/// The next line that is not blank.
fn read_line(reader: &mut BufReader<Source>, line: &mut u64) -> Result<Option<Raw>, String> {
    loop {
        let mut bytes = Vec::new();
        let limit = ITEM_BYTES_MAX as u64 + 1;
        reader.take(limit).read_until(b'\n', &mut bytes).map_err(|error| unreadable(&error))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        *line += 1;
        if bytes.len() > ITEM_BYTES_MAX {
            return Err(format!("line {line}: it has more than {} MiB", ITEM_BYTES_MAX >> 20));
        }
        let line = *line;
        match String::from_utf8(bytes) {
            Err(_) => {
                return Ok(Some(Raw::Broken { line, reason: "the line is no UTF-8 text".into() }));
            }
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => return Ok(Some(Raw::Text(Piece { line, text: text.trim().to_owned() }))),
        }
    }
}

fn unreadable_rows(error: &csv::Error) -> String {
    match error.kind() {
        // The text is wrong, and the message has the line.
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
        _ => format!("the file cannot be read: {error}"),
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("the file cannot be read: {error}")
}

impl Shape {
    pub fn entry(&self, raw: Raw) -> Result<Entry, Refusal> {
        match (raw, self) {
            (Raw::Broken { line, reason }, _) => Err(Refusal { line, reason, text: String::new() }),
            (Raw::Text(Piece { line, text }), shape) => {
                let id = match shape {
                    Shape::Objects { id } => id.as_deref(),
                    Shape::Rows(_) => None,
                };
                match with_id(&text, id) {
                    Ok(item) => Ok(Entry { line, item }),
                    Err(reason) => Err(Refusal { line, reason, text }),
                }
            }
            (Raw::Row { line, cells }, Shape::Rows(columns)) => match columns.item(&cells) {
                Ok(item) => Ok(Entry { line, item }),
                Err(reason) => {
                    let text = cells.iter().collect::<Vec<_>>().join(",");
                    Err(Refusal { line, reason, text })
                }
            },
            (Raw::Row { line, .. }, Shape::Objects { .. }) => {
                Err(Refusal { line, reason: "a row has no columns".into(), text: String::new() })
            }
        }
    }
}

/// The object, with the value of a property as its id.
fn with_id(text: &str, id: Option<&str>) -> Result<String, String> {
    if members(text).is_none() {
        let reason = match serde_json::from_str::<&serde_json::value::RawValue>(text) {
            Err(error) if error.line() > 1 => format!("no valid JSON: {error} of the item"),
            Err(error) => {
                // The line would be that within the item.
                let (message, column) = (error.to_string(), error.column());
                let message = message.split(" at line ").next().unwrap_or_default();
                format!("no valid JSON at column {column}: {message}")
            }
            Ok(_) => "the value is no object".to_owned(),
        };
        return Err(reason);
    }
    let Some(name) = id.filter(|name| *name != "id") else { return Ok(text.to_owned()) };
    let members = members(text).unwrap_or_default();
    if members.iter().any(|(found, _)| found == "id") {
        return Err(format!("it has an id already, beside '{name}'"));
    }
    let (_, value) = members
        .iter()
        .rfind(|(found, _)| found == name)
        .ok_or_else(|| format!("it has no property '{name}' for the id"))?;
    let id = text_of(value.get()).unwrap_or_else(|| value.get().to_owned());
    let rest = text.trim_start().trim_start_matches('{');
    Ok(format!("{{\"id\":{},{rest}", serde_json::Value::from(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &'static str, format: FileFormat, shape: &Shape) -> Vec<Result<Entry, Refusal>> {
        let mut records = Records::open(Box::new(text.as_bytes()), format, b',').expect("open");
        let _header = records.header().expect("a header");
        assert!(records.sample().expect("a sample").len() <= SAMPLE_RECORDS);
        let mut found = Vec::new();
        while let Some(raw) = records.next().expect("a record") {
            found.push(shape.entry(raw));
        }
        found
    }

    #[test]
    fn lines_are_items_of_their_own() {
        let text = "\u{feff}{\"id\":\"1\",\"n\":1e400}\r\n\n {\"id\" \n[1]\n{\"id\":\"2\"}";
        let found = entries(text, FileFormat::Jsonl, &Shape::Objects { id: None });
        assert_eq!(found[0], Ok(Entry { line: 1, item: "{\"id\":\"1\",\"n\":1e400}".into() }));
        assert!(found[1].as_ref().is_err_and(|refusal| refusal.line == 3 && refusal.reason.contains("JSON")));
        assert!(found[2].as_ref().is_err_and(|refusal| refusal.reason.contains("no object")));
        assert_eq!(found[3], Ok(Entry { line: 5, item: "{\"id\":\"2\"}".into() }));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_quote_that_is_left_open_does_not_fill_the_memory() {
        let endless = io::repeat(b'x').take(1 << 30);
        let source: Source = Box::new(Cursor::new(b"id,t\n1,a\n2,\"").chain(endless));
        let mut records = Records::open(source, FileFormat::Csv, b',').expect("open");
        assert!(records.header().expect("a header").is_some());
        assert!(matches!(records.next(), Ok(Some(Raw::Row { line: 2, .. }))));
        let message = records.next().expect_err("too long");
        assert!(message.starts_with("line 3: ") && message.contains("is a quote left open?"), "{message}");
    }

    #[test]
    fn a_property_may_be_the_id() {
        let shape = Shape::Objects { id: Some("sku".into()) };
        let text = "[{\"sku\":7},{\"sku\":\"a\\\"b\"},{\"sku\":1,\"id\":\"x\"},{}]";
        let found = entries(text, FileFormat::Json, &shape);
        assert_eq!(found[0], Ok(Entry { line: 1, item: "{\"id\":\"7\",\"sku\":7}".into() }));
        assert_eq!(found[1].as_ref().map(|entry| entry.item.as_str()), Ok(r#"{"id":"a\"b","sku":"a\"b"}"#));
        assert!(found[2].as_ref().is_err_and(|refusal| refusal.reason.contains("already")));
        assert!(found[3].as_ref().is_err_and(|refusal| refusal.reason.contains("no property 'sku'")));
    }

    #[test]
    fn rows_have_the_line_at_which_they_begin() {
        let header = StringRecord::from(vec!["id", "t"]);
        let columns = Columns::of(&header, &[], &[], None, &[]).expect("columns");
        let found = entries("id,t\n1,\"a\nb\"\n2\n3,c\n", FileFormat::Csv, &Shape::Rows(columns));
        assert_eq!(found[0], Ok(Entry { line: 2, item: r#"{"id":"1","t":"a\nb"}"#.into() }));
        assert!(found[1].as_ref().is_err_and(|refusal| refusal.line == 4 && refusal.text == "2"));
        assert_eq!(found[2], Ok(Entry { line: 5, item: r#"{"id":"3","t":"c"}"#.into() }));
    }
}
