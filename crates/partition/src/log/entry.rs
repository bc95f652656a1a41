//! The change log: one entry per commit, written in the same batch as the items it describes.
//!
//! Entries that a partition has from those it was made of name only its own items, and carry the counters of those; where
//! it was made of several, entries of one LSN have become one.
//!
//! LSNs are contiguous, so a lost commit is a hole that `verify` sees. An entry also carries the partition's counters as
//! they are after it: the last entry is all a partition needs to open. Its bytes are in `format.rs`.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use shardlake_stdx::HybridTime;

use crate::due::Due;

/// Region of every commit, as an account has one.
pub(crate) const OWN_REGION: u8 = 0;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Time of the commit. Times of one log never go down.
    pub time: HybridTime,
    /// Region that committed; 0 where an account has one.
    pub region: u8,
    pub counters: Counters,
    /// Earliest ends of the partition's items after the commit, where they are recorded.
    pub due: Option<Due>,
    /// Number of the copy whose maintenance committed; 0 for clients.
    pub origin: u32,
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
    /// Ordinal of the version that this one replaces, where it is another one: one commit deleted the
    /// item and created it anew.
    pub ended_ordinal: Option<u64>,
    /// LSN of the version that this one replaces or deletes; 0 for a new item.
    pub previous_lsn: u64,
    /// Item key without partition and space.
    pub key: Vec<u8>,
    /// Rows of copies that the old version had.
    pub ended: Vec<EndedRow>,
}

/// Row of a copy of a container that ends with a version of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRow {
    /// Number of the copy.
    pub copy: u32,
    /// The copy's own record of the row, of less than 64 KiB.
    pub row: Vec<u8>,
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
    pub fn new(kind: ChangeKind, ordinal: u64, previous_lsn: u64, key: &[u8]) -> LogOperation {
        LogOperation {
            kind,
            ordinal,
            ended_ordinal: None,
            previous_lsn,
            key: key.to_vec(),
            ended: Vec::new(),
        }
    }

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
        let before = self.ended_ordinal.unwrap_or(self.ordinal);
        // The ordinal of the existing item, or else of the former one.
        let ordinal = if exists { later.ordinal } else { before };
        let ended_ordinal = Some(before).filter(|before| existed && *before != ordinal);
        // Both are rows of the version from before the transaction.
        let mut ended = self.ended;
        for row in later.ended {
            if !ended.contains(&row) {
                ended.push(row);
            }
        }
        Some(LogOperation { kind, ordinal, ended_ordinal, ended, ..self })
    }
}

impl LogEntry {
    /// An entry of a client's commit.
    pub(crate) fn new(time: HybridTime, counters: Counters, operations: Vec<LogOperation>) -> LogEntry {
        LogEntry { time, region: OWN_REGION, counters, due: None, origin: 0, operations }
    }

    pub fn timestamp_ms(&self) -> u64 {
        self.time.milliseconds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_transaction_comes_to_one_operation_per_item() {
        use ChangeKind::*;
        let operation = LogOperation::new;
        let net_of = |list: &[(ChangeKind, u64, u64)]| {
            let list =
                list.iter().map(|(kind, ordinal, previous)| operation(*kind, *ordinal, *previous, b"k"));
            let others = [operation(Create, 90, 0, b"other")];
            let net = net(others.into_iter().chain(list).collect(), 7);
            assert_eq!(net[0], operation(Create, 90, 0, b"other"));
            net[1..].to_vec()
        };
        let plain = |list: &[(ChangeKind, u64, u64)]| -> Vec<LogOperation> {
            list.iter().map(|(kind, ordinal, previous)| operation(*kind, *ordinal, *previous, b"k")).collect()
        };
        let joined = |ordinal, previous_lsn, ended| LogOperation {
            ended_ordinal: Some(ended),
            ..operation(Replace, ordinal, previous_lsn, b"k")
        };
        assert_eq!(net_of(&[(Create, 1, 0), (Replace, 1, 7)]), plain(&[(Create, 1, 0)]));
        assert_eq!(net_of(&[(Replace, 1, 3), (Replace, 1, 7)]), plain(&[(Replace, 1, 3)]));
        assert_eq!(net_of(&[(Replace, 1, 3), (Delete, 1, 7)]), plain(&[(Delete, 1, 3)]));
        assert_eq!(net_of(&[(Create, 1, 0), (Delete, 1, 7)]), []);
        assert_eq!(net_of(&[(Create, 1, 0), (Delete, 1, 7), (Create, 2, 0)]), plain(&[(Create, 2, 0)]));
        assert_eq!(net_of(&[(Delete, 1, 3), (Create, 2, 0)]), [joined(2, 3, 1)]);
        assert_eq!(net_of(&[(Delete, 1, 3), (Create, 2, 0), (Replace, 2, 7)]), [joined(2, 3, 1)]);
        assert_eq!(net_of(&[(Delete, 1, 3), (Create, 2, 0), (Delete, 2, 7)]), plain(&[(Delete, 1, 3)]));
        let twice = [(Delete, 1, 3), (Create, 2, 0), (Delete, 2, 7), (Create, 3, 0)];
        assert_eq!(net_of(&twice), [joined(3, 3, 1)]);
        let expired = (Expire, 1, 3);
        let created = [expired, (Create, 2, 0)];
        assert_eq!(net_of(&[expired, (Create, 2, 0), (Replace, 2, 7)]), plain(&created));
        assert_eq!(net_of(&[expired, (Create, 2, 0), (Delete, 2, 7)]), plain(&[expired]));
        assert_eq!(net_of(&[(Create, 1, 0)]), plain(&[(Create, 1, 0)]));
    }

    /// The item under each key after operations: its ordinal; and ordinals and LSNs of the versions from before
    /// that ended.
    type Replayed = (BTreeMap<Vec<u8>, u64>, BTreeSet<(u64, u64)>);

    fn replayed(operations: &[LogOperation], lsn: u64) -> Replayed {
        let (mut items, mut ended) = (BTreeMap::new(), BTreeSet::new());
        for LogOperation { kind, ordinal, ended_ordinal, previous_lsn, key, .. } in operations {
            if *previous_lsn > 0 && *previous_lsn != lsn {
                let is_first = ended.insert((ended_ordinal.unwrap_or(*ordinal), *previous_lsn));
                assert!(is_first, "a version ends once");
            }
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
                operations.push(LogOperation::new(kind, ordinal, previous_lsn, &key));
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
            let time = HybridTime(times);
            let operations = net(operations(&acts, lsn), lsn);
            let entry = LogEntry { time, region: 3, counters, due: None, origin: 7, operations };
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
