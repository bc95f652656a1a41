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
use serde::{Deserialize, Serialize};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_stdx::codec::{Reader, Writer};

const VERSION: u8 = 1;
/// The bytes of an operation with an empty key.
const OPERATION_BYTES_MIN: usize = 21;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    pub timestamp_ms: u64,
    pub counters: Counters,
    pub operations: Vec<LogOperation>,
}

/// A partition's totals after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogOperation {
    pub kind: ChangeKind,
    pub ordinal: u64,
    /// LSN of the version that this one replaces or deletes; 0 for a new item.
    pub previous_lsn: u64,
    /// Item key without partition and space.
    pub key: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::with_capacity(64 + self.operations.len() * 96);
        let Counters { items, size_bytes, next_ordinal } = self.counters;
        out.byte(VERSION).le(self.timestamp_ms).le(items).le(size_bytes).le(next_ordinal);
        out.le(self.operations.len() as u32);
        for LogOperation { kind, ordinal, previous_lsn, key } in &self.operations {
            out.byte(*kind as u8).le(*ordinal).le(*previous_lsn).le(key.len() as u32).bytes(key);
        }
        let checksum = crc32fast::hash(out.written());
        out.le(checksum);
        out.into_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Result<LogEntry> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("a change log entry {what}"));
        let (content, checksum) =
            bytes.split_last_chunk::<4>().ok_or_else(|| corrupt("is shorter than its checksum"))?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(corrupt("does not match its checksum"));
        }
        let mut reader = Reader::new(content);
        match reader.byte() {
            Some(VERSION) => {}
            Some(other) => return Err(corrupt(&format!("has the unknown version {other}"))),
            None => return Err(corrupt("is empty")),
        }
        read_entry(&mut reader).and_then(|entry| reader.end(entry)).ok_or_else(|| corrupt("is malformed"))
    }
}

fn read_entry(reader: &mut Reader<'_>) -> Option<LogEntry> {
    let timestamp_ms = reader.le()?;
    let counters = Counters { items: reader.le()?, size_bytes: reader.le()?, next_ordinal: reader.le()? };
    let count = reader.le::<u32>()? as usize;
    let operations = reader.list(count, OPERATION_BYTES_MIN, read_operation)?;
    Some(LogEntry { timestamp_ms, counters, operations })
}

fn read_operation(reader: &mut Reader<'_>) -> Option<LogOperation> {
    let kind = match reader.byte()? {
        1 => ChangeKind::Create,
        2 => ChangeKind::Replace,
        3 => ChangeKind::Delete,
        4 => ChangeKind::Expire,
        _ => return None,
    };
    let (ordinal, previous_lsn) = (reader.le()?, reader.le()?);
    let length = reader.le::<u32>()? as usize;
    Some(LogOperation { kind, ordinal, previous_lsn, key: reader.take(length)?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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

    #[test]
    fn the_stored_bytes_stay_the_same() {
        let hex: String = entry().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "017b00000000000000020000000000000063000000000000000a00000000000000020000000109000000000000000400000000000000\
             0300000061626304090000000000000004000000000000000000000024f349e6"
        );
    }

    /// The item under each key after operations: its ordinal; and how many versions from before ended.
    fn replayed(operations: &[LogOperation], lsn: u64) -> (BTreeMap<Vec<u8>, u64>, usize) {
        let (mut items, mut ended) = (BTreeMap::new(), 0);
        for LogOperation { kind, ordinal, previous_lsn, key } in operations {
            ended += usize::from(*previous_lsn > 0 && *previous_lsn != lsn);
            match kind {
                ChangeKind::Create | ChangeKind::Replace => drop(items.insert(key.clone(), *ordinal)),
                ChangeKind::Delete | ChangeKind::Expire => drop(items.remove(key)),
            }
        }
        (items, ended)
    }

    /// A transaction over three items, two of which exist, one of them expired.
    fn operations(acts: &[(u8, bool)], lsn: u64) -> Vec<LogOperation> {
        let (mut next, mut operations) = (100, Vec::new());
        // LSN and ordinal of each item, and whether its time has run out.
        let mut items = [Some((3, 1, false)), Some((4, 2, true)), None];
        for (number, puts) in acts {
            let (place, key) = (usize::from(number % 3), vec![number % 3]);
            let mut push = |kind, ordinal, previous_lsn| {
                operations.push(LogOperation { kind, ordinal, previous_lsn, key: key.clone() });
            };
            match (items[place], puts) {
                (Some((previous, ordinal, false)), true) => {
                    push(ChangeKind::Replace, ordinal, previous);
                    items[place] = Some((lsn, ordinal, false));
                }
                (old, true) => {
                    if let Some((previous, ordinal, _)) = old {
                        push(ChangeKind::Expire, ordinal, previous);
                    }
                    next += 1;
                    push(ChangeKind::Create, next, 0);
                    items[place] = Some((lsn, next, false));
                }
                (Some((previous, ordinal, is_expired)), false) => {
                    push(if is_expired { ChangeKind::Expire } else { ChangeKind::Delete }, ordinal, previous);
                    items[place] = None;
                }
                (None, false) => {}
            }
        }
        operations
    }

    proptest! {
        #[test]
        fn net_operations_leave_the_same_items(
            acts in prop::collection::vec((any::<u8>(), any::<bool>()), 0..20),
        ) {
            let all = operations(&acts, 9);
            let net = net(all.clone(), 9);
            let (items, ended) = replayed(&all, 9);
            prop_assert_eq!(replayed(&net, 9), (items, ended));
            let mut keys: Vec<_> =
                net.iter().filter(|one| one.kind != ChangeKind::Expire).map(|one| &one.key).collect();
            keys.sort_unstable();
            prop_assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "one operation per item: {:?}", net);
            prop_assert!(net.iter().all(|one| one.previous_lsn < 9), "versions of its own never show");
            let gained = |list: &[LogOperation]| -> i64 {
                list.iter().map(|one| match one.kind {
                    ChangeKind::Create => 1,
                    ChangeKind::Replace => 0,
                    ChangeKind::Delete | ChangeKind::Expire => -1,
                }).sum()
            };
            prop_assert_eq!(gained(&net), gained(&all));
        }

        #[test]
        fn entries_of_any_kind_survive(
            lsn in 1..u64::MAX, times in any::<u64>(), acts in prop::collection::vec((any::<u8>(), any::<bool>()), 0..20),
        ) {
            let counters = Counters { items: lsn / 2, size_bytes: lsn, next_ordinal: times };
            let entry = LogEntry { timestamp_ms: times, counters, operations: operations(&acts, lsn) };
            prop_assert_eq!(LogEntry::decode(&entry.encode()).expect("its own"), entry.clone());
            let halves = [entry.part(|key| key == [0]), entry.part(|key| key != [0])];
            let [mut joined, other] = halves;
            joined.join(other);
            let sorted = |entry: &LogEntry| {
                let mut operations = entry.operations.clone();
                operations.sort_by_key(|one| (one.key.clone(), one.ordinal, one.kind as u8, one.previous_lsn));
                operations
            };
            prop_assert_eq!(sorted(&joined), sorted(&entry));
        }
    }
}
