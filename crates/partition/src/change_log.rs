//! The change log: one entry per commit, written in the same batch as the items it describes.
//!
//! Entries that a partition has from those it was made of name only its own items, and carry the counters of those; where
//! it was made of several, entries of one LSN have become one.
//!
//! LSNs are contiguous, so a lost commit is a hole that `verify` sees. An entry also carries the partition's counters as
//! they are after it: the last entry is all a partition needs to open. Layout, little-endian:
//!
//! ```text
//! version u8 | timestamp ms u64 | items u64 | size_bytes u64 | next_ordinal u64 | operations u32
//!   then per operation: kind u8 | ordinal u64 | previous_lsn u64 | key length u32 | key (without its header)
//! crc32 u32 of everything before
//! ```

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use shardlake_model::{Error, ErrorKind, Result};

const VERSION: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    pub timestamp_ms: u64,
    pub counters: Counters,
    pub operations: Vec<LogOperation>,
}

/// A partition's totals after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    pub items: u64,
    /// Sum of the items' JSON sizes.
    pub size_bytes: u64,
    pub next_ordinal: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters { items: 0, size_bytes: 0, next_ordinal: 1 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOperation {
    pub kind: ChangeKind,
    pub ordinal: u64,
    /// LSN of the version that this one replaces or deletes; 0 for a new item.
    pub previous_lsn: u64,
    /// Item key without partition and space.
    pub key: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Create = 1,
    Replace = 2,
    Delete = 3,
    /// A deletion because the time to live ran out.
    Expire = 4,
}

/// Net operations of a transaction: one for each item, besides the end of an expired item that was
/// created anew. Readers never see the versions between.
pub(crate) fn net(operations: Vec<LogOperation>, lsn: u64) -> Vec<LogOperation> {
    if operations.len() < 2 {
        return operations;
    }
    let mut places: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    let mut kept: Vec<Option<LogOperation>> = Vec::with_capacity(operations.len());
    for operation in operations {
        if operation.kind == ChangeKind::Expire && operation.previous_lsn != lsn {
            kept.push(Some(operation));
            continue;
        }
        match places.entry(operation.key.clone()) {
            Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push(Some(operation));
            }
            Entry::Occupied(place) => {
                let kept = &mut kept[*place.get()];
                *kept = kept.take().map_or(Some(operation.clone()), |before| before.then(operation));
            }
        }
    }
    kept.into_iter().flatten().collect()
}

impl LogOperation {
    /// This operation and a later one of the same transaction as one; `None` where they leave nothing.
    fn then(self, later: LogOperation) -> Option<LogOperation> {
        let existed = self.kind != ChangeKind::Create;
        let exists = matches!(later.kind, ChangeKind::Create | ChangeKind::Replace);
        let kind = match (existed, exists) {
            (false, false) => return None,
            (false, true) => ChangeKind::Create,
            (true, true) => ChangeKind::Replace,
            (true, false) => ChangeKind::Delete,
        };
        // The ordinal of the existing item, or else of the last one.
        let ordinal = if exists { later.ordinal } else { self.ordinal };
        Some(LogOperation { kind, ordinal, ..self })
    }
}

impl LogEntry {
    /// Without the operations on items that others have.
    pub(crate) fn part(&self, is_own: impl Fn(&[u8]) -> bool) -> LogEntry {
        let operations = self.operations.iter().filter(|operation| is_own(&operation.key)).cloned().collect();
        LogEntry { operations, ..*self }
    }

    /// One entry for two of one LSN, from partitions that become one.
    pub(crate) fn join(&mut self, other: LogEntry) {
        self.timestamp_ms = self.timestamp_ms.max(other.timestamp_ms);
        self.operations.extend(other.operations);
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.operations.len() * 96);
        out.push(VERSION);
        let Counters { items, size_bytes, next_ordinal } = self.counters;
        for number in [self.timestamp_ms, items, size_bytes, next_ordinal] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.operations.len() as u32).to_le_bytes());
        for operation in &self.operations {
            out.push(operation.kind as u8);
            out.extend_from_slice(&operation.ordinal.to_le_bytes());
            out.extend_from_slice(&operation.previous_lsn.to_le_bytes());
            out.extend_from_slice(&(operation.key.len() as u32).to_le_bytes());
            out.extend_from_slice(&operation.key);
        }
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<LogEntry> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("a change log entry {what}"));
        let (content, checksum) =
            bytes.split_last_chunk::<4>().ok_or_else(|| corrupt("is shorter than its checksum"))?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(corrupt("does not match its checksum"));
        }
        let mut reader = Reader(content);
        match reader.u8() {
            Some(VERSION) => {}
            Some(other) => return Err(corrupt(&format!("has the unknown version {other}"))),
            None => return Err(corrupt("is empty")),
        }
        reader.entry().filter(|_| reader.0.is_empty()).ok_or_else(|| corrupt("is malformed"))
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn entry(&mut self) -> Option<LogEntry> {
        let timestamp_ms = self.u64()?;
        let counters = Counters { items: self.u64()?, size_bytes: self.u64()?, next_ordinal: self.u64()? };
        let count = self.u32()?;
        // The count is not trusted for an allocation.
        let mut operations = Vec::new();
        for _ in 0..count {
            operations.push(self.operation()?);
        }
        Some(LogEntry { timestamp_ms, counters, operations })
    }

    fn operation(&mut self) -> Option<LogOperation> {
        let kind = match self.u8()? {
            1 => ChangeKind::Create,
            2 => ChangeKind::Replace,
            3 => ChangeKind::Delete,
            4 => ChangeKind::Expire,
            _ => return None,
        };
        let (ordinal, previous_lsn) = (self.u64()?, self.u64()?);
        let length = self.u32()? as usize;
        Some(LogOperation { kind, ordinal, previous_lsn, key: self.take(length)?.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> LogEntry {
        let operation =
            |kind, key: &[u8]| LogOperation { kind, ordinal: 9, previous_lsn: 4, key: key.to_vec() };
        LogEntry {
            timestamp_ms: 123,
            counters: Counters { items: 2, size_bytes: 99, next_ordinal: 10 },
            operations: vec![operation(ChangeKind::Create, b"abc"), operation(ChangeKind::Expire, b"")],
        }
    }

    #[test]
    fn a_transaction_comes_to_one_operation_per_item() {
        use ChangeKind::*;
        let operation = |kind, ordinal, previous_lsn, key: &[u8]| LogOperation {
            kind,
            ordinal,
            previous_lsn,
            key: key.to_vec(),
        };
        let net_of = |list: &[(ChangeKind, u64, u64)]| {
            let list =
                list.iter().map(|(kind, ordinal, previous)| operation(*kind, *ordinal, *previous, b"k"));
            let others = [operation(Create, 90, 0, b"other")];
            let net = net(others.into_iter().chain(list).collect(), 7);
            assert_eq!(net[0], operation(Create, 90, 0, b"other"));
            net[1..].iter().map(|one| (one.kind, one.ordinal, one.previous_lsn)).collect::<Vec<_>>()
        };
        assert_eq!(net_of(&[(Create, 1, 0), (Replace, 1, 7)]), [(Create, 1, 0)]);
        assert_eq!(net_of(&[(Replace, 1, 3), (Replace, 1, 7)]), [(Replace, 1, 3)]);
        assert_eq!(net_of(&[(Replace, 1, 3), (Delete, 1, 7)]), [(Delete, 1, 3)]);
        assert_eq!(net_of(&[(Create, 1, 0), (Delete, 1, 7)]), []);
        assert_eq!(net_of(&[(Create, 1, 0), (Delete, 1, 7), (Create, 2, 0)]), [(Create, 2, 0)]);
        assert_eq!(net_of(&[(Delete, 1, 3), (Create, 2, 0)]), [(Replace, 2, 3)]);
        assert_eq!(net_of(&[(Delete, 1, 3), (Create, 2, 0), (Delete, 2, 7)]), [(Delete, 2, 3)]);
        let expired = (Expire, 1, 3);
        assert_eq!(net_of(&[expired, (Create, 2, 0), (Replace, 2, 7)]), [expired, (Create, 2, 0)]);
        assert_eq!(net_of(&[expired, (Create, 2, 0), (Delete, 2, 7)]), [expired]);
        assert_eq!(net_of(&[(Create, 1, 0)]), [(Create, 1, 0)]);
    }

    #[test]
    fn entries_survive_and_any_flipped_byte_is_detected() {
        let bytes = entry().encode();
        assert_eq!(LogEntry::decode(&bytes).expect("intact"), entry());
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(LogEntry::decode(&broken).is_err(), "byte {at}");
            assert!(LogEntry::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
