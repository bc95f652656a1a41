//! Invariants of a partition, as predicates: commits assert them, `verify` reports them.
//!
//! | function | holds | checked |
//! |---|---|---|
//! | [`commit`] | LSN + 1; times rise; ordinals never fall; the total of items follows from the log | at every commit |
//! | [`rows`] | item ⇔ ordinal row ⇔ operation in the log, of one time and region; unique row ⇒ item; keys inside the range | at every commit in debug builds, else at 1 of 64 |
//! | [`opened`] | last LSN, totals and marks of the log agree | when a partition is opened, and by `verify` |
//! | [`crate::log::invariants::Page`] | LSNs rise without unknown holes, times do not fall, versions end after they began | where pages of the log are read, and by `verify` |
//!
//! A predicate over state in memory is asserted: a commit that contradicts it must not be queued. A
//! predicate over stored state is reported, so that damage ends no server.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_document::Record;
use shardlake_model::PartitionUid;
use shardlake_routing::KeyRange;
use shardlake_stdx::HybridTime;

use crate::keys::{self, HEADER};
use crate::log::entry::{ChangeKind, Counters, LogOperation, OWN_REGION};
use crate::log::marks::LogMarks;

/// The reason why something cannot be.
pub(crate) type Broken = &'static str;

/// In release builds, one commit of so many has its rows checked.
const SAMPLED: u64 = 64;

/// Whether the rows of a commit are checked.
pub(crate) fn is_sampled(lsn: u64) -> bool {
    cfg!(debug_assertions) || lsn.is_multiple_of(SAMPLED)
}

/// A partition after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub lsn: u64,
    pub time: HybridTime,
    pub counters: Counters,
}

/// The step from one commit to the next, with the operations of its log entry.
pub(crate) fn commit(before: &Point, after: &Point, operations: &[LogOperation]) -> Result<(), Broken> {
    if after.lsn != before.lsn + 1 {
        return Err("a commit advances the LSN by exactly one");
    }
    if after.time <= before.time {
        return Err("times rise from commit to commit");
    }
    if after.counters.next_ordinal < before.counters.next_ordinal {
        return Err("an ordinal that was handed out is handed out again");
    }
    let gained: i64 = operations.iter().map(|operation| items_gained(operation.kind)).sum();
    if before.counters.items.wrapping_add_signed(gained) != after.counters.items {
        return Err("the total of items does not follow from the operations of the log");
    }
    Ok(())
}

fn items_gained(kind: ChangeKind) -> i64 {
    match kind {
        ChangeKind::Create => 1,
        ChangeKind::Replace => 0,
        ChangeKind::Delete | ChangeKind::Expire => -1,
    }
}

/// The range of a partition, as bounds of its item keys without header.
#[derive(Debug)]
pub(crate) struct KeyBounds {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl KeyBounds {
    pub fn of(range: &KeyRange) -> KeyBounds {
        KeyBounds { start: keys::item_key_bound_below(range), end: keys::item_key_bound(range) }
    }

    fn contain(&self, item: &[u8]) -> bool {
        &self.start[..] <= item && self.end.as_ref().is_none_or(|end| item < &end[..])
    }
}

/// Rows of a commit, by space and by the key behind the header.
struct Rows<'w> {
    writes: &'w [(Bytes, Option<Bytes>)],
    /// Where there are many. A check of few rows takes no memory.
    by_key: Option<FxHashMap<(u8, &'w [u8]), usize>>,
}

/// Rows that are looked through one after the other.
const FEW: usize = 24;

fn split(key: &[u8]) -> (u8, &[u8]) {
    (key.get(HEADER - 1).copied().unwrap_or_default(), key.get(HEADER..).unwrap_or_default())
}

impl<'w> Rows<'w> {
    fn new(writes: &'w [(Bytes, Option<Bytes>)]) -> Rows<'w> {
        let numbered = || writes.iter().map(|(key, _)| split(key)).zip(0..);
        Rows { writes, by_key: (writes.len() > FEW).then(|| numbered().collect()) }
    }

    /// The place of the last row with a key.
    fn place(&self, space: u8, rest: &[u8]) -> Option<usize> {
        match &self.by_key {
            Some(by_key) => by_key.get(&(space, rest)).copied(),
            None => self.writes.iter().rposition(|(key, _)| split(key) == (space, rest)),
        }
    }

    /// Outer `None` where the row is not written, inner where it is deleted.
    fn get(&self, space: u8, rest: &[u8]) -> Option<Option<&'w Bytes>> {
        self.place(space, rest).map(|place| self.writes[place].1.as_ref())
    }

    fn is_each_written_once(&self) -> bool {
        let is_last = |(place, (key, _)): (usize, &(Bytes, _))| {
            let (space, rest) = split(key);
            self.place(space, rest) == Some(place)
        };
        self.writes.iter().enumerate().all(is_last)
    }
}

/// The rows of a commit of a partition, against the operations of its log entry.
pub(crate) fn rows(
    (uid, bounds): (PartitionUid, &KeyBounds),
    (lsn, time): (u64, HybridTime),
    writes: &[(Bytes, Option<Bytes>)],
    operations: &[LogOperation],
) -> Result<(), Broken> {
    let rows = Rows::new(writes);
    if !rows.is_each_written_once() {
        return Err("a commit writes a row twice");
    }
    let mut written = 0;
    for operation in operations {
        written += usize::from(is_version(operation.kind));
        agrees(&rows, (lsn, time), operation)?;
    }
    let mut found = 0;
    for (key, value) in writes {
        if keys::uid_of(key) != uid {
            return Err("a row of another partition is written");
        }
        if keys::is_item(key) {
            found += usize::from(value.is_some());
            if !bounds.contain(&key[HEADER..]) {
                return Err("an item is written outside of the partition's range");
            }
        }
        if let (true, Some(holder)) = (keys::is_unique_key(key), value) {
            let (_, logical) =
                keys::parse_unique_key(&key[HEADER..]).ok_or("a unique value has a malformed key")?;
            let id = std::str::from_utf8(holder).map_err(|_| "a unique value has a malformed holder")?;
            let item = keys::item_key(uid, &logical, id);
            if !matches!(rows.get(keys::ITEMS, &item[HEADER..]), Some(Some(_))) {
                return Err("a unique value is given to an item that is not written");
            }
        }
    }
    if found != written {
        return Err("an item is written that the log does not have");
    }
    Ok(())
}

fn is_version(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::Create | ChangeKind::Replace)
}

/// An operation of the log against the rows of its item and of its ordinal.
fn agrees(rows: &Rows<'_>, (lsn, time): (u64, HybridTime), operation: &LogOperation) -> Result<(), Broken> {
    let LogOperation { kind, ordinal, key, .. } = operation;
    let item = rows.get(keys::ITEMS, key);
    let owner = rows.get(keys::ORDINALS, &ordinal.to_be_bytes());
    let is_own = owner.flatten().is_some_and(|owner| owner[..] == key[..]);
    if !is_version(*kind) {
        return match (item, owner) {
            (None, _) => Err("the log has a deletion without a deleted item"),
            (_, None) => Err("the ordinal of a deleted item still names it"),
            _ if is_own => Err("the ordinal of a deleted item still names it"),
            _ => Ok(()),
        };
    }
    let Some(Some(record)) = item else { return Err("the log has a version without an item") };
    let envelope = Record::decode(record).map_err(|_| "a written record is damaged")?.envelope;
    if (envelope.lsn, envelope.ordinal) != (lsn, *ordinal) {
        return Err("a written item has another LSN or ordinal than its operation");
    }
    if (envelope.time, envelope.region) != (time, OWN_REGION) {
        return Err("a written item has another time or region than its commit");
    }
    // The steps of a transaction may have given it to another item.
    let ended = operation.ended_ordinal.map(|ended| rows.get(keys::ORDINALS, &ended.to_be_bytes()));
    if ended.is_some_and(|ended| ended.is_none_or(|owner| owner.is_some_and(|owner| owner[..] == key[..]))) {
        return Err("the ordinal of an ended version still names its item");
    }
    // A version that takes the place of another keeps its ordinal.
    match is_own || owner.is_none() && *kind == ChangeKind::Replace {
        true => Ok(()),
        false => Err("the ordinal of a written item does not name it"),
    }
}

/// Stored state with which a partition opens: its last LSN, the totals of that commit, and the marks
/// of its log.
pub(crate) fn opened(lsn: u64, counters: &Counters, marks: &LogMarks) -> Result<(), Broken> {
    if (counters.items == 0) != (counters.size_bytes == 0) {
        return Err("the totals have items without bytes, or bytes without items");
    }
    if lsn == 0 && counters.items > 0 {
        return Err("the totals have items that no commit wrote");
    }
    if marks.swept_to > marks.holes_to || marks.joined_to > marks.holes_to {
        return Err("the log was compacted or joined beyond its holes");
    }
    if marks.holes_to > lsn {
        return Err("the log was compacted beyond its end");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixture::Fixture;

    const UID: PartitionUid = PartitionUid(3);

    fn point(lsn: u64, time: u64, items: u64, next_ordinal: u64) -> Point {
        Point {
            lsn,
            time: HybridTime(time),
            counters: Counters { items, size_bytes: items * 100, next_ordinal },
        }
    }

    fn operation(kind: ChangeKind, key: &[u8], ordinal: u64, previous_lsn: u64) -> LogOperation {
        LogOperation::new(kind, ordinal, previous_lsn, key)
    }

    #[test]
    fn steps_that_cannot_be_are_named() {
        let before = point(7, 50, 3, 9);
        let create = [operation(ChangeKind::Create, b"a", 9, 0)];
        let reason = |after: Point, operations: &[LogOperation]| commit(&before, &after, operations).err();
        assert_eq!(reason(point(8, 51, 4, 10), &create), None);
        assert!(reason(point(9, 51, 4, 10), &create).is_some_and(|words| words.contains("exactly one")));
        for time in [49, 50] {
            assert!(reason(point(8, time, 4, 10), &create).is_some_and(|words| words.contains("times")));
        }
        assert!(reason(point(8, 51, 4, 8), &create).is_some_and(|words| words.contains("ordinal")));
        assert!(reason(point(8, 51, 3, 10), &create).is_some_and(|words| words.contains("total")));
        let anew = [operation(ChangeKind::Expire, b"a", 2, 4), operation(ChangeKind::Create, b"a", 9, 0)];
        assert_eq!(reason(point(8, 51, 3, 10), &anew), None, "one ends, one begins");
    }

    #[test]
    fn stored_states_that_cannot_be_are_named() {
        let counters = |items, size_bytes| Counters { items, size_bytes, next_ordinal: 5 };
        let (none, joined) =
            (LogMarks::default(), LogMarks::of_sources(&[(vec![], &LogMarks::default())], 9));
        assert_eq!(opened(0, &Counters::default(), &none), Ok(()));
        assert_eq!(opened(10, &counters(2, 300), &joined), Ok(()));
        assert!(opened(10, &counters(2, 0), &none).is_err(), "items without bytes");
        assert!(opened(10, &counters(0, 7), &none).is_err(), "bytes without items");
        assert!(opened(0, &counters(2, 300), &none).is_err(), "items without a commit");
        assert!(opened(8, &counters(2, 300), &joined).is_err(), "holes beyond the end");
        let mut swept = LogMarks::default();
        swept.swept_to = 4;
        assert!(opened(10, &counters(2, 300), &swept).is_err(), "compacted, and no holes");
    }

    /// The rows of the last commit of a partition, as the shard has them, and its operations.
    async fn last_commit(fixture: &Fixture, lsn: u64) -> (Vec<(Bytes, Option<Bytes>)>, crate::LogEntry) {
        let view = fixture.shard.view();
        let entry = view.get(&keys::log_key(UID, lsn)).await.expect("readable").expect("an entry");
        let entry = crate::LogEntry::decode(&entry).expect("its own");
        let mut writes = Vec::new();
        for operation in &entry.operations {
            for key in [
                keys::with_header(UID, keys::ITEMS, &operation.key),
                keys::ordinal_key(UID, operation.ordinal),
            ] {
                let value = view.get(&key).await.expect("readable");
                writes.push((Bytes::from(key), value));
            }
        }
        (writes, entry)
    }

    #[tokio::test]
    async fn rows_and_operations_belong_together() {
        let fixture = Fixture::new().await;
        fixture.upsert("a", "1").await.expect("written");
        let (writes, entry) = last_commit(&fixture, 1).await;
        let (at, operations) = ((1, entry.time), entry.operations);
        let full = KeyBounds::of(&KeyRange::full());
        let checked = |writes: &[(Bytes, Option<Bytes>)], operations: &[LogOperation]| {
            rows((UID, &full), at, writes, operations).err()
        };
        assert_eq!(checked(&writes, &operations), None);
        let reason = |writes: &[(Bytes, Option<Bytes>)], operations: &[LogOperation], words: &str| {
            let found = checked(writes, operations);
            assert!(found.is_some_and(|found| found.contains(words)), "{found:?}, not {words}");
        };
        reason(&writes[1..], &operations, "without an item");
        reason(&writes[..1], &operations, "does not name it");
        reason(&writes, &[], "the log does not have");
        reason(&[&writes[..], &writes[..1]].concat(), &operations, "twice");
        let deleted = [LogOperation { kind: ChangeKind::Delete, ..operations[0].clone() }];
        reason(&writes, &deleted, "still names it");
        let ended = operations[0].ordinal;
        let both = [LogOperation { ended_ordinal: Some(ended), ..operations[0].clone() }];
        reason(&writes, &both, "an ended version still names");
        let renumbered = [LogOperation { ordinal: 99, ..operations[0].clone() }];
        reason(&writes, &renumbered, "another LSN or ordinal");
        let later = rows((UID, &full), (1, entry.time.next()), &writes, &operations).err();
        assert!(later.is_some_and(|words| words.contains("another time or region")), "{later:?}");
        let end = KeyRange::full().max;
        let empty = KeyBounds::of(&KeyRange { min: end.clone(), max: end });
        let outside = rows((UID, &empty), at, &writes, &operations).err();
        assert!(outside.is_some_and(|words| words.contains("outside")), "{outside:?}");
        let mut key = keys::logical_prefix_in(UID, keys::UNIQUE_KEYS, &fixture.logical());
        key.insert(HEADER, 0);
        let row = |holder: &'static str| vec![(Bytes::from(key.clone()), Some(Bytes::from(holder)))];
        assert_eq!(checked(&[writes.clone(), row("a")].concat(), &operations), None);
        reason(&[writes.clone(), row("b")].concat(), &operations, "unique value");
    }
}
