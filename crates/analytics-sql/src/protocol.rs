//! Messages between the server and a worker. Both are one program, so the form needs no versions.
//!
//! ```text
//! server: Order ────────────────────────────────> worker
//!         <──────────────────────── Head, Data …, End   or Failed at any point
//!         <──────────────────────── Names               of an order for names alone
//! ```
//!
//! A frame is its length (little endian, 4 bytes), a byte for its kind, and its content.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::table::{AsOf, ListedTable, Refusal};

/// Longest frame. An order has a statement, its parameters and the account's tables.
const FRAME_BYTES_MAX: usize = 64 << 20;
pub(crate) const HEADER_BYTES: usize = 5;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    Json,
    JsonLines,
    Csv,
    ArrowStream,
}

impl Format {
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::JsonLines => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8",
            Format::ArrowStream => "application/vnd.apache.arrow.stream",
        }
    }
}

/// A statement with everything that its worker needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub statement: String,
    pub parameters: Map<String, Value>,
    pub database: Option<String>,
    pub tables: Vec<ListedTable>,
    pub as_of: AsOf,
    pub format: Format,
    /// 64-bit integers as texts, in JSON.
    pub bigints_as_text: bool,
    /// The second at which the query began.
    pub now: i64,
    /// Whether the names of the statement's tables are the answer.
    pub names_only: bool,
    pub limits: Limits,
    /// Folder of this query's spill files.
    pub spill_folder: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub memory_bytes: u64,
    pub spill_bytes: u64,
    /// Of answers in texts.
    pub rows: u64,
    pub answer_bytes: u64,
    pub threads: usize,
    pub seconds: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Order(OrderText),
    /// The tables that the statement of an order names.
    Names(Vec<(String, String)>),
    Head(Head),
    Data(Vec<u8>),
    /// The last bytes of an answer come with its end, since a client may leave as soon as it has them.
    End(Vec<u8>, Statistics),
    Failed(Failure),
}

/// The text of an order: compared by its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderText(pub Vec<u8>);

/// The beginning of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub media_type: String,
    /// Versions by `database/container`.
    pub versions: BTreeMap<String, u64>,
}

/// Figures of a query that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statistics {
    pub rows: u64,
    pub bytes_read: u64,
    pub memory_bytes: u64,
    pub spilled_bytes: u64,
    pub cpu_ms: u64,
    pub elapsed_ms: u64,
}

/// Why a query did not end with an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// Place in the statement, from 1.
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub hint: Option<String>,
    /// The table that the statement names and that is not there, by database and container.
    pub table: Option<Box<(String, String)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The statement is wrong, or does more than read.
    Statement,
    NotEnabled,
    NotReady,
    /// A table lacks writes that the answer must have, and does not follow its container.
    NotFollowing,
    /// The answer must have writes that the container does not have.
    SessionNotAvailable,
    /// The table lies where workers cannot read it.
    OutOfReach,
    VersionGone,
    NeedsTooMuch,
    /// The answer is larger than an answer of this form may be.
    TooLarge,
    Damaged,
    TimedOut,
    Cancelled,
    /// Too many queries wait.
    Busy,
    /// The worker was killed, or could not be started.
    Lost,
    Internal,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), line: None, column: None, hint: None, table: None }
    }

    /// An answer that cannot be written.
    pub(crate) fn of_answer(error: impl std::fmt::Display) -> Failure {
        Failure::new(FailureKind::Internal, format!("the answer cannot be written: {error}"))
    }

    pub fn at(self, line: u64, column: u64) -> Failure {
        Failure { line: Some(line), column: Some(column), ..self }
    }

    pub fn of_refusal(refusal: &Refusal) -> Failure {
        let kind = match refusal {
            Refusal::NotEnabled(_) => FailureKind::NotEnabled,
            Refusal::NotReady(_) => FailureKind::NotReady,
            Refusal::OutOfReach(_) => FailureKind::OutOfReach,
            Refusal::VersionGone(_) => FailureKind::VersionGone,
            Refusal::Damaged(_) => FailureKind::Damaged,
        };
        Failure::new(kind, refusal.message())
    }

    /// The same place, with another reason.
    pub(crate) fn because(self, refusal: &Refusal) -> Failure {
        Failure { line: self.line, column: self.column, ..Failure::of_refusal(refusal) }
    }
}

impl Message {
    /// Appends the frame.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let kind = match self {
            Message::Order(order) => {
                out.extend_from_slice(&order.0);
                b'O'
            }
            Message::Names(names) => json_into(out, names, b'N'),
            Message::Head(head) => json_into(out, head, b'H'),
            Message::Data(bytes) => {
                out.extend_from_slice(bytes);
                b'D'
            }
            Message::End(last, statistics) => {
                out.extend_from_slice(&(last.len() as u32).to_le_bytes());
                out.extend_from_slice(last);
                json_into(out, statistics, b'E')
            }
            Message::Failed(failure) => json_into(out, failure, b'F'),
        };
        let length = (out.len() - start - HEADER_BYTES) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4] = kind;
    }

    pub(crate) fn decode(kind: u8, content: &[u8]) -> io::Result<Message> {
        fn json<T: for<'d> Deserialize<'d>>(content: &[u8]) -> io::Result<T> {
            serde_json::from_slice(content).map_err(io::Error::other)
        }
        Ok(match kind {
            b'O' => Message::Order(OrderText(content.to_vec())),
            b'N' => Message::Names(json(content)?),
            b'H' => Message::Head(json(content)?),
            b'D' => Message::Data(content.to_vec()),
            b'E' => {
                let broken = || io::Error::from(io::ErrorKind::InvalidData);
                let (length, rest) = content.split_first_chunk::<4>().ok_or_else(broken)?;
                let length = u32::from_le_bytes(*length) as usize;
                let (last, statistics) = rest.split_at_checked(length).ok_or_else(broken)?;
                Message::End(last.to_vec(), json(statistics)?)
            }
            b'F' => Message::Failed(json(content)?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }

    /// Reads one frame; `None` where the stream has ended.
    pub(crate) fn read(stream: &mut impl Read) -> io::Result<Option<Message>> {
        let mut header = [0; HEADER_BYTES];
        match stream.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (length, kind) = header_parts(header)?;
        let mut content = Vec::new();
        stream.take(length as u64).read_to_end(&mut content)?;
        if content.len() < length {
            return Ok(None);
        }
        Message::decode(kind, &content).map(Some)
    }

    pub(crate) fn send(&self, stream: &mut impl Write) -> io::Result<()> {
        let mut frame = Vec::new();
        self.write_to(&mut frame);
        stream.write_all(&frame)
    }
}

/// Length and kind of a frame.
pub(crate) fn header_parts(header: [u8; HEADER_BYTES]) -> io::Result<(usize, u8)> {
    let [a, b, c, d, kind] = header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > FRAME_BYTES_MAX { Err(io::ErrorKind::InvalidData.into()) } else { Ok((length, kind)) }
}

fn json_into(out: &mut Vec<u8>, content: &impl Serialize, kind: u8) -> u8 {
    serde_json::to_writer(out, content).expect("messages are plain data");
    kind
}

impl Order {
    pub(crate) fn message(&self) -> Message {
        Message::Order(OrderText(serde_json::to_vec(self).expect("an order is plain data")))
    }
}

impl OrderText {
    pub(crate) fn decode(&self) -> io::Result<Order> {
        serde_json::from_slice(&self.0).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let head = Head { media_type: "text/csv".into(), versions: BTreeMap::from([("a/b".into(), 7)]) };
        let messages = [
            Message::Names(vec![("a".into(), "b".into())]),
            Message::Head(head),
            Message::Data(b"1,2\n".to_vec()),
            Message::End(b"3,4\n".to_vec(), Statistics { rows: 1, ..Statistics::default() }),
            Message::Failed(Failure::new(FailureKind::Statement, "no").at(1, 8)),
        ];
        let mut stream = Vec::new();
        messages.iter().for_each(|message| message.write_to(&mut stream));
        let mut rest = stream.as_slice();
        for message in messages {
            assert_eq!(Message::read(&mut rest).unwrap(), Some(message));
        }
        assert_eq!(Message::read(&mut rest).unwrap(), None);
        assert!(Message::read(&mut [0xff; 5].as_slice()).is_err());
        assert!(Message::decode(b'E', &[9, 0, 0, 0, 1]).is_err(), "fewer bytes than announced");
    }
}
