//! The bytes of an entry of the change log, little-endian. Version 2 is written:
//!
//! ```text
//! version u8 | flags u8 | time u64 | region u8 | items u64 | size_bytes u64 | next_ordinal u64
//! flag 1: earliest own end u64 | oldest item u64, in seconds
//! flag 2: origin u32
//! operations u32, then per operation:
//!   kind u8, and bits | ordinal u64 | bit 16: ended ordinal u64 | previous_lsn u64
//!   key length u32 | key (without its header)
//!   bit 32: ended rows u16, then per row: copy u32 | length u16 | row
//! crc32 u32 of everything before
//! ```
//! The time has 48 bits of milliseconds and 16 of a counter. Version 1 is read for ever:
//!
//! ```text
//! version u8 | timestamp ms u64 | items u64 | size_bytes u64 | next_ordinal u64
//! operations u32, then per operation: kind u8 | ordinal u64 | previous_lsn u64 | key length u32 | key
//! crc32 u32 of everything before
//! ```

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_stdx::HybridTime;
use shardlake_stdx::codec::{Reader, Writer};

use super::entry::{ChangeKind, Counters, EndedRow, LogEntry, LogOperation};
use crate::due::Due;

const VERSION: u8 = 2;
const FLAG_DUE: u8 = 1;
const FLAG_ORIGIN: u8 = 2;

const KIND: u8 = 0x0F;
const BIT_ENDED_ORDINAL: u8 = 0x10;
const BIT_ENDED_ROWS: u8 = 0x20;

/// The bytes of an operation with an empty key, in both versions.
const OPERATION_BYTES_MIN: usize = 21;
/// The bytes of an ended row without content.
const ENDED_ROW_BYTES_MIN: usize = 6;

impl LogEntry {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::with_capacity(64 + self.operations.len() * 96);
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        let flags = flag(self.due.is_some(), FLAG_DUE) | flag(self.origin != 0, FLAG_ORIGIN);
        let Counters { items, size_bytes, next_ordinal } = self.counters;
        out.byte(VERSION).byte(flags).le(self.time.0).byte(self.region);
        out.le(items).le(size_bytes).le(next_ordinal);
        if let Some(Due { own, oldest }) = self.due {
            out.le(own).le(oldest);
        }
        if self.origin != 0 {
            out.le(self.origin);
        }
        out.le(self.operations.len() as u32);
        for operation in &self.operations {
            let LogOperation { kind, ordinal, ended_ordinal, previous_lsn, key, ended } = operation;
            let bits =
                flag(ended_ordinal.is_some(), BIT_ENDED_ORDINAL) | flag(!ended.is_empty(), BIT_ENDED_ROWS);
            out.byte(*kind as u8 | bits).le(*ordinal);
            if let Some(ended) = ended_ordinal {
                out.le(*ended);
            }
            out.le(*previous_lsn).le(key.len() as u32).bytes(key);
            write_ended(ended, &mut out);
        }
        let checksum = crc32fast::hash(out.written());
        out.le(checksum);
        out.into_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Result<LogEntry> {
        let corrupt = |problem: &str| Error::new(ErrorKind::Corrupt, format!("a change log entry {problem}"));
        let (content, checksum) =
            bytes.split_last_chunk::<4>().ok_or_else(|| corrupt("is shorter than its checksum"))?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(corrupt("does not match its checksum"));
        }
        let mut reader = Reader::new(content);
        let mut unknown = None;
        let entry = match reader.byte() {
            Some(1) => read_version_1(&mut reader),
            Some(VERSION) => read_entry(&mut reader, &mut unknown),
            Some(other) => return Err(corrupt(&format!("has the unknown version {other}: {NEWER}"))),
            None => return Err(corrupt("is empty")),
        };
        let entry = entry.and_then(|entry| reader.end(entry));
        entry.ok_or_else(|| match unknown {
            Some(unknown) => corrupt(&format!("has {unknown}: {NEWER}")),
            None => corrupt("is malformed"),
        })
    }
}

/// How to mend an entry of another format.
const NEWER: &str = "a newer version of the program wrote it, use that one";

fn write_ended(ended: &[EndedRow], out: &mut Writer) {
    if ended.is_empty() {
        return;
    }
    let short = |length: usize| u16::try_from(length).expect("ended rows and their number have 16 bits");
    out.le(short(ended.len()));
    for EndedRow { copy, row } in ended {
        out.le(*copy).le(short(row.len())).bytes(row);
    }
}

fn read_counters(reader: &mut Reader<'_>) -> Option<Counters> {
    Some(Counters { items: reader.le()?, size_bytes: reader.le()?, next_ordinal: reader.le()? })
}

fn read_version_1(reader: &mut Reader<'_>) -> Option<LogEntry> {
    let time = HybridTime::from_milliseconds(reader.le()?);
    let counters = read_counters(reader)?;
    let count = reader.le::<u32>()? as usize;
    let operations = reader.list(count, OPERATION_BYTES_MIN, |reader| {
        let kind = kind_of(reader.byte()?)?;
        let (ordinal, previous_lsn) = (reader.le()?, reader.le()?);
        let length = reader.le::<u32>()? as usize;
        Some(LogOperation::new(kind, ordinal, previous_lsn, reader.take(length)?))
    })?;
    Some(LogEntry::new(time, counters, operations))
}

/// Names the part that this program does not know, where it returns `None` because of one.
fn read_entry(reader: &mut Reader<'_>, unknown: &mut Option<String>) -> Option<LogEntry> {
    let flags = reader.byte()?;
    let others = flags & !(FLAG_DUE | FLAG_ORIGIN);
    if others != 0 {
        *unknown = Some(format!("the unknown flags {others:#04x}"));
        return None;
    }
    let (time, region) = (HybridTime(reader.le()?), reader.byte()?);
    let counters = read_counters(reader)?;
    let due = match flags & FLAG_DUE != 0 {
        true => Some(Due { own: reader.le()?, oldest: reader.le()? }),
        false => None,
    };
    let origin = if flags & FLAG_ORIGIN != 0 { reader.le()? } else { 0 };
    let count = reader.le::<u32>()? as usize;
    let operations = reader.list(count, OPERATION_BYTES_MIN, |reader| read_operation(reader, unknown))?;
    Some(LogEntry { time, region, counters, due, origin, operations })
}

fn read_operation(reader: &mut Reader<'_>, unknown: &mut Option<String>) -> Option<LogOperation> {
    let byte = reader.byte()?;
    let others = byte & !(KIND | BIT_ENDED_ORDINAL | BIT_ENDED_ROWS);
    if others != 0 {
        *unknown = Some(format!("an operation with the unknown bits {others:#04x}"));
        return None;
    }
    let Some(kind) = kind_of(byte & KIND) else {
        *unknown = Some(format!("an operation of the unknown kind {}", byte & KIND));
        return None;
    };
    let ordinal = reader.le()?;
    let ended_ordinal = if byte & BIT_ENDED_ORDINAL != 0 { Some(reader.le()?) } else { None };
    let previous_lsn = reader.le()?;
    let length = reader.le::<u32>()? as usize;
    let key = reader.take(length)?.to_vec();
    let ended = if byte & BIT_ENDED_ROWS != 0 { read_ended(reader)? } else { Vec::new() };
    Some(LogOperation { kind, ordinal, ended_ordinal, previous_lsn, key, ended })
}

fn read_ended(reader: &mut Reader<'_>) -> Option<Vec<EndedRow>> {
    let count = usize::from(reader.le::<u16>()?);
    reader.list(count, ENDED_ROW_BYTES_MIN, |reader| {
        let (copy, length) = (reader.le()?, usize::from(reader.le::<u16>()?));
        Some(EndedRow { copy, row: reader.take(length)?.to_vec() })
    })
}

fn kind_of(number: u8) -> Option<ChangeKind> {
    match number {
        1 => Some(ChangeKind::Create),
        2 => Some(ChangeKind::Replace),
        3 => Some(ChangeKind::Delete),
        4 => Some(ChangeKind::Expire),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entry of [`plain`] as programs before version 2 stored it.
    const STORED_1: &str = "017b00000000000000020000000000000063000000000000000a0000000000000002000000010900\
                            00000000000004000000000000000300000061626304090000000000000004000000000000000000\
                            000024f349e6";
    const STORED_2: &str = "020000007b000000000000020000000000000063000000000000000a000000000000000200000001\
                            09000000000000000400000000000000030000006162630409000000000000000400000000000000\
                            000000000c999d9f";
    /// The entry of [`full`].
    const STORED_2_FULL: &str = "020305007b000000000003020000000000000063000000000000000a000000000000000700000000\
                            00000008000000000000000600000002000000320900000000000000020000000000000004000000\
                            00000000030000006162630200010000000200787902000000000024090000000000000004000000\
                            000000000000000001000100000001007af5d2837c";

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// With parts of version 1 only.
    fn plain() -> LogEntry {
        let operation = |kind, key: &[u8]| LogOperation::new(kind, 9, 4, key);
        let counters = Counters { items: 2, size_bytes: 99, next_ordinal: 10 };
        let operations = vec![operation(ChangeKind::Create, b"abc"), operation(ChangeKind::Expire, b"")];
        LogEntry::new(HybridTime::from_milliseconds(123), counters, operations)
    }

    /// With every part.
    fn full() -> LogEntry {
        let mut entry = plain();
        entry.time = HybridTime(123 << 16 | 5);
        entry.region = 3;
        entry.due = Some(Due { own: 7, oldest: 8 });
        entry.origin = 6;
        let row = |copy, row: &[u8]| EndedRow { copy, row: row.to_vec() };
        entry.operations[0].kind = ChangeKind::Replace;
        entry.operations[0].ended_ordinal = Some(2);
        entry.operations[0].ended = vec![row(1, b"xy"), row(2, b"")];
        entry.operations[1].ended = vec![row(1, b"z")];
        entry
    }

    #[test]
    fn entries_survive_and_any_flipped_byte_is_detected() {
        for entry in [plain(), full()] {
            let bytes = entry.encode();
            assert_eq!(LogEntry::decode(&bytes).expect("intact"), entry);
            for at in 0..bytes.len() {
                let mut broken = bytes.clone();
                broken[at] ^= 0x10;
                assert!(LogEntry::decode(&broken).is_err(), "byte {at}");
                assert!(LogEntry::decode(&bytes[..at]).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn the_stored_bytes_stay_the_same() {
        assert_eq!(hex(&plain().encode()), STORED_2);
        assert_eq!(hex(&full().encode()), STORED_2_FULL);
    }

    #[test]
    fn entries_of_version_1_are_read() {
        let entry = LogEntry::decode(&bytes_of(STORED_1)).expect("version 1");
        assert_eq!(entry, plain());
        assert_eq!(entry.time, HybridTime(123 << 16), "milliseconds, without a counter");
        assert_eq!(plain().encode().len(), bytes_of(STORED_1).len() + 2, "flags and region");
    }

    /// The error of a changed byte, with a checksum that matches.
    fn refusal(entry: &LogEntry, at: usize, byte: u8) -> String {
        let mut bytes = entry.encode();
        bytes.truncate(bytes.len() - 4);
        bytes[at] = byte;
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        LogEntry::decode(&bytes).expect_err("refused").to_string()
    }

    #[test]
    fn unknown_parts_are_refused_by_name() {
        // Behind version, flags, time, region, three counters and the number of operations.
        let operation_at = 1 + 1 + 8 + 1 + 24 + 4;
        for (at, byte, expected) in [
            (0, 3, "has the unknown version 3: a newer version of the program wrote it"),
            (1, 0b1001, "has the unknown flags 0x08: a newer version of the program wrote it"),
            (operation_at, 0x41, "has an operation with the unknown bits 0x40: a newer version"),
            (operation_at, 0x05, "has an operation of the unknown kind 5: a newer version"),
            (operation_at, 0x21, "is malformed"),
        ] {
            let error = refusal(&plain(), at, byte);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    #[should_panic(expected = "16 bits")]
    fn an_ended_row_that_is_too_long_is_not_cut() {
        let mut entry = full();
        entry.operations[0].ended[0].row = vec![0; 1 << 16];
        entry.encode();
    }
}
