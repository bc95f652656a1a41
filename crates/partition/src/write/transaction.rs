//! One commit in the making: reads see the engine, queued commits and the transaction's own writes; writes collect.
//!
//! A transaction lives under the partition's sequencer lock, and nothing in it waits: a read that
//! the engine does not have at hand stops it (`read_set.rs`). Dropping it leaves no trace;
//! [`Transaction::into_batch`] turns it into the one batch that is committed, with its change-log
//! entry.

mod logged;

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::{Error, ErrorKind, Limits};
use shardlake_routing::LogicalKey;
use shardlake_stdx::{HybridTime, Timestamp};
use shardlake_storage::{Answer, Batch, Shard};

use super::rows::{Base, Step, Writes};
use crate::due::{Due, own_end};
use crate::index::{self, IndexChange, Maintained};
use crate::invariants::Point;
use crate::item::StoredItem;
use crate::keys::{self, HEADER, PartitionUid};
use crate::log::entry::{self, ChangeKind, Counters, LogEntry, LogOperation};
use crate::oldest::Oldest;
use crate::origin::Origin;
use crate::pending::Pending;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::shape::ContainerSchema;
use crate::sizes::{LogicalSize, RecentSizes, SizeChange, limit};
use crate::watch::Watch;

/// Everything that a plan depends on. It stays the same while the plan is made.
#[derive(Clone, Copy)]
pub(crate) struct PlanInput<'a> {
    pub origin: Origin,
    pub shape: &'a Arc<ContainerSchema>,
    pub shard: &'a Shard,
    /// LSN of the commit.
    pub lsn: u64,
    /// The partition's totals before it.
    pub counters: Counters,
    /// By which items have run out.
    pub now: Timestamp,
    /// The time recorded in the log and in the items that are written.
    pub time: HybridTime,
    /// Queued commits that the engine does not show yet.
    pub pending: &'a Pending,
    /// Values that were fetched for the plan.
    pub reads: &'a ReadSet,
    pub maintained: &'a Maintained,
    /// Copies that get the rows which end; not for steps, whose versions no other commit sees.
    pub watch: Option<&'a dyn Watch>,
    /// `None` where they are not kept.
    pub sizes: Option<&'a RecentSizes>,
    /// The oldest items, as far as they are in memory.
    pub oldest: Option<&'a Oldest>,
    /// Earlier writes of the transaction, where it is planned step by step.
    pub base: Option<&'a Base>,
    pub switches: Switches,
}

/// Conditions under which a plan is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Switches {
    /// Versions that end are kept.
    pub keeps_versions: bool,
    /// Versions of expired items above this LSN are kept when they end.
    pub keeps_expired_above: Option<u64>,
    /// It carries out a client's request.
    pub is_clients: bool,
    /// It is planned on the blocking pool.
    pub is_offloaded: bool,
    /// It may remove items for good whose time has run out.
    pub may_expire: bool,
    /// The unique keys are not those of its shape any more.
    pub is_outdated: bool,
}

/// Changes so far. Later reads of the same plan see them.
#[derive(Default)]
struct Changes {
    writes: Writes,
    index: IndexChange,
    counters: Counters,
    sized: Option<Sized>,
    /// Other items make room for a client's: their removal keeps to no bound of the client's.
    is_trimming: bool,
}

/// The logical partition that a transaction writes to.
struct Sized {
    key: Bytes,
    /// Before the transaction, where that was looked up.
    before: Option<LogicalSize>,
    change: SizeChange,
}

/// Results besides the rows: for the log, and for the sequencer.
struct Results {
    operations: Vec<LogOperation>,
    /// Number of the copy that writes; 0 for clients.
    origin: u32,
    /// Items that it has created.
    created: usize,
    /// The changes of logical partitions that are recorded.
    sum: SizeChange,
    /// The sizes of logical partitions after the transaction.
    recorded: Vec<(Bytes, LogicalSize)>,
    /// Earliest expiry of the versions that it writes.
    due: Due,
}

pub(crate) struct Transaction<'a> {
    pub input: PlanInput<'a>,
    state: Changes,
    outcome: Results,
}

impl<'a> Transaction<'a> {
    pub fn new(input: PlanInput<'a>) -> Self {
        let state = Changes { counters: input.counters, ..Changes::default() };
        let outcome = Results {
            operations: Vec::new(),
            origin: 0,
            created: 0,
            sum: SizeChange::default(),
            recorded: Vec::new(),
            due: Due::NEVER,
        };
        Transaction { input, state, outcome }
    }

    pub fn get(&self, key: &[u8]) -> Plan<Option<Bytes>> {
        if let Some(written) = self.state.writes.get(key) {
            return Ok(written.clone());
        }
        if let Some(written) = self.input.base.and_then(|base| base.get(key)) {
            return Ok(written.clone());
        }
        self.stored(key)
    }

    /// The writes of others, up to the last queued commit: queued, or fetched for this plan, or in
    /// the engine if that answers at once.
    fn stored(&self, key: &[u8]) -> Plan<Option<Bytes>> {
        let PlanInput { pending, reads, shard, .. } = self.input;
        if let Some(queued) = pending.get(key) {
            return Ok(queued);
        }
        if let Some(fetched) = reads.value(key) {
            return Ok(fetched.clone());
        }
        match shard.lookup_applied(key) {
            Answer::Now(value) => Ok(value.map_err(crate::storage_error)?),
            Answer::Later(_) => Err(Stop::Wanted(vec![Bytes::copy_from_slice(key)])),
        }
    }

    pub fn write(&mut self, key: impl Into<Bytes>, value: Option<Bytes>) {
        self.state.writes.put(key, value);
    }

    /// The item under a key, also when its time to live has run out.
    pub fn item(&self, key: &[u8]) -> Plan<Option<StoredItem>> {
        let Some(bytes) = self.get(key)? else { return Ok(None) };
        if let Some(known) = self.input.reads.heavy(key, &bytes) {
            return Ok(Some(known.clone()));
        }
        Ok(Some(StoredItem::decode(bytes, self.input.shape)?))
    }

    /// An item that is to end, or to be another one, with the terms of its body, which are found out once. Those of a heavy one
    /// take long.
    pub fn with_terms(&self, old: StoredItem) -> Plan<StoredItem> {
        match old.known_terms().is_none() && old.is_heavy() && !self.input.switches.is_offloaded {
            true => Err(Stop::Heavy),
            false => Ok(old.with_terms()),
        }
    }

    pub fn new_ordinal(&mut self) -> u64 {
        let ordinal = self.state.counters.next_ordinal;
        self.state.counters.next_ordinal += 1;
        assert!(ordinal < 1 << 40, "a partition hands out fewer than 2^40 ordinals");
        u64::from(self.input.origin.rid_prefix) << 40 | ordinal
    }

    /// Writes a version of an item. `old` is the version that it replaces; `kind` is recorded in
    /// the log.
    pub fn put(
        &mut self,
        name: &ItemName<'_>,
        item: &StoredItem,
        old: Option<&StoredItem>,
        kind: ChangeKind,
    ) -> Plan<()> {
        self.log_version(name, item, old, kind)?;
        self.put_in(name, item, old, Claim::IfFree)
    }

    /// Writes a version that another partition decided on. The copied item takes over its unique
    /// values, even if another item holds them here.
    pub fn put_copy(&mut self, name: &ItemName<'_>, item: &StoredItem, old: Option<&StoredItem>) -> Plan<()> {
        self.log_version(name, item, old, ChangeKind::Replace)?;
        self.put_in(name, item, old, Claim::Always)
    }

    /// Writes the final version of a transaction of several steps, which have claimed its unique
    /// values. Where it has another ordinal than `old`, that ordinal was taken out before.
    pub fn put_decided(
        &mut self,
        name: &ItemName<'_>,
        item: &StoredItem,
        old: Option<&StoredItem>,
        kind: ChangeKind,
    ) -> Plan<()> {
        let ordinal = item.envelope().ordinal;
        self.log_version(name, item, old, kind)?;
        let displaced = old.filter(|old| old.envelope().ordinal == ordinal);
        self.put_in(name, item, displaced, Claim::Always)
    }

    /// All of a version but its entry in the log.
    fn put_in(
        &mut self,
        name: &ItemName<'_>,
        item: &StoredItem,
        old: Option<&StoredItem>,
        claim: Claim,
    ) -> Plan<()> {
        #[cfg(feature = "testing")]
        crate::seeded::panic_if(crate::seeded::Mistake::PanicWhilePlanning);
        if self.may_have_unique_values() {
            if let Some(old) = old {
                self.release_unique_keys(name.logical, name.id, old)?;
            }
            self.claim_unique_keys(name.logical, name.id, item, claim)?;
        }
        self.count(name.logical, old, Some(item));
        let ordinal = item.envelope().ordinal;
        if old.map(|old| old.envelope().ordinal) != Some(ordinal) {
            if let Some(old) = old {
                self.forget_ordinal(name, old);
            }
            self.write(keys::ordinal_key(self.input.origin.uid, ordinal), Some(name.key.slice(HEADER..)));
            self.write(
                name.created_key(self.input.origin.uid, ordinal),
                Some(name.key.slice(name.id_at()..)),
            );
        }
        self.write(name.key.clone(), Some(item.record_bytes()));
        self.outcome.due.note(item.envelope());
        self.queue_end(name, old, Some(item));
        self.index(old, Some(item))
    }

    /// Whether there is anything to claim or to release, or the shape does not show that.
    fn may_have_unique_values(&self) -> bool {
        self.input.switches.is_outdated || !self.input.shape.unique_keys.is_empty()
    }

    /// The ordinal names no item any more, and has no place in the order of creation.
    fn forget_ordinal(&mut self, name: &ItemName<'_>, old: &StoredItem) {
        let ordinal = old.envelope().ordinal;
        self.write(keys::ordinal_key(self.input.origin.uid, ordinal), None);
        self.write(name.created_key(self.input.origin.uid, ordinal), None);
    }

    /// Keeps the queue of items that run out by a time of their own.
    fn queue_end(&mut self, name: &ItemName<'_>, old: Option<&StoredItem>, new: Option<&StoredItem>) {
        let end_of = |item: Option<&StoredItem>| item.and_then(|item| own_end(item.envelope()));
        let (old, new) = (end_of(old), end_of(new));
        if old == new {
            return;
        }
        let row = |end| keys::expiry_key(self.input.origin.uid, end, &name.key[HEADER..]);
        let (old, new) = (old.map(row), new.map(row));
        if let Some(row) = old {
            self.write(row, None);
        }
        if let Some(row) = new {
            self.write(row, Some(Bytes::new()));
        }
    }

    pub fn delete(&mut self, name: &ItemName<'_>, old: &StoredItem, kind: ChangeKind) -> Plan<()> {
        self.log(kind, name, Some(old), None)?;
        self.take_out(name, old)
    }

    /// All of a deletion but its entry in the log.
    pub fn take_out(&mut self, name: &ItemName<'_>, old: &StoredItem) -> Plan<()> {
        if self.may_have_unique_values() {
            self.release_unique_keys(name.logical, name.id, old)?;
        }
        self.count(name.logical, Some(old), None);
        self.forget_ordinal(name, old);
        self.write(name.key.clone(), None);
        self.queue_end(name, Some(old), None);
        self.index(Some(old), None)
    }

    /// Notes an item's change in the totals of the partition and of the logical partition.
    fn count(&mut self, logical: &LogicalKey, old: Option<&StoredItem>, new: Option<&StoredItem>) {
        let size = |item: Option<&StoredItem>| item.map_or(0, |item| item.json_size_bytes() as i64);
        let by = SizeChange {
            items: i64::from(new.is_some()) - i64::from(old.is_some()),
            size_bytes: size(new) - size(old),
        };
        self.state.counters.items = self.state.counters.items.wrapping_add_signed(by.items);
        self.state.counters.size_bytes = self.state.counters.size_bytes.wrapping_add_signed(by.size_bytes);
        let sized = self.sized(logical);
        sized.change.items += by.items;
        sized.change.size_bytes += by.size_bytes;
    }

    fn sized(&mut self, logical: &LogicalKey) -> &mut Sized {
        let uid = self.input.origin.uid;
        let sized = self.state.sized.get_or_insert_with(|| Sized {
            key: keys::size_key(uid, logical).into(),
            before: None,
            change: SizeChange::default(),
        });
        debug_assert_eq!(
            sized.key,
            keys::size_key(uid, logical),
            "a transaction writes to one logical partition after the other"
        );
        sized
    }

    /// Items created so far.
    pub fn created(&self) -> usize {
        self.outcome.created
    }

    pub fn note_created(&mut self) {
        self.outcome.created += 1;
    }

    pub fn set_trimming(&mut self, is_trimming: bool) {
        self.state.is_trimming = is_trimming;
    }

    /// By how much the logical partition has grown so far.
    pub fn growth_bytes(&self) -> i64 {
        self.state.sized.as_ref().map_or(0, |sized| sized.change.size_bytes)
    }

    /// The same with the items that it has gained; nothing where it has shrunk.
    pub fn growth(&self) -> LogicalSize {
        let change = self.state.sized.as_ref().map(|sized| sized.change).unwrap_or_default();
        let grown = |by: i64| u64::try_from(by).unwrap_or_default();
        LogicalSize { items: grown(change.items), size_bytes: grown(change.size_bytes) }
    }

    /// The size of a logical partition before the transaction.
    fn size_before(&self, key: &[u8]) -> Plan<LogicalSize> {
        let committed = match self.input.sizes.and_then(|sizes| sizes.get(key)) {
            Some(known) => known,
            None => self.get(key)?.as_deref().map_or(Ok(LogicalSize::default()), LogicalSize::decode)?,
        };
        let steps = self.input.base.map(|base| base.change_of(key));
        Ok(steps.map_or(Ok(committed), |change| committed.changed_by(change))?)
    }

    /// Whether it is one step of several.
    pub fn is_step(&self) -> bool {
        self.input.base.is_some()
    }

    /// Whether the transaction's logical partition holds no item now: then there is none to look for.
    pub fn is_empty(&mut self, logical: &LogicalKey) -> Plan<bool> {
        Ok(self.size_now(logical)?.items == 0)
    }

    /// The size of the transaction's logical partition with its own writes.
    pub fn size_now(&mut self, logical: &LogicalKey) -> Plan<LogicalSize> {
        self.sized(logical);
        let mut sized = self.state.sized.take().expect("it was just made");
        let before = match sized.before {
            Some(before) => before,
            None => self.size_before(&sized.key)?,
        };
        sized.before = Some(before);
        let now = before.changed_by(sized.change)?;
        self.state.sized = Some(sized);
        Ok(now)
    }

    /// Writes the size of the logical partition if it is another one after the last change, and gives it with the old one.
    /// Another logical partition may follow, but not the same again.
    pub fn record_size(&mut self) -> Plan<Option<(LogicalSize, LogicalSize)>> {
        let changed = self.state.sized.take().filter(|sized| sized.change != SizeChange::default());
        let Some(Sized { key, before, change }) = changed else { return Ok(None) };
        let before = match before {
            Some(before) => before,
            None => self.size_before(&key)?,
        };
        let after = before.changed_by(change)?;
        self.write(key.clone(), (after.items > 0).then(|| after.encode()));
        self.outcome.sum.add(change);
        self.outcome.recorded.push((key, after));
        Ok(Some((before, after)))
    }

    /// Records the size of a client's write: refuses it if the logical partition or the partition
    /// would exceed its limit.
    pub fn record_size_within_limits(&mut self) -> Plan<()> {
        let Some((before, after)) = self.record_size()? else { return Ok(()) };
        let limits = &self.input.shape.limits;
        match grows_beyond(before, after, self.state.counters.size_bytes, limits) {
            true => Err(limit::refusal(after, limits).into()),
            false => Ok(()),
        }
    }

    fn index(&mut self, old: Option<&StoredItem>, new: Option<&StoredItem>) -> Plan<()> {
        let maintained = self.input.maintained;
        let takes_long = |item: &StoredItem| item.is_heavy() && item.known_terms().is_none();
        if !self.input.switches.is_offloaded
            && !maintained.layouts.is_empty()
            && old.into_iter().chain(new).any(takes_long)
        {
            return Err(Stop::Heavy);
        }
        // The index follows from the result of all steps.
        if self.input.base.is_some() {
            return Ok(());
        }
        maintained.change(self.input.origin.uid, old, new, &mut self.state.index);
        // A single operation may exceed it: an item stored under another policy can have any number
        // of terms. Writes of the server itself have bounds of their own, since no client could
        // split them.
        let max = self.input.shape.limits.transaction_index_entries_max;
        let is_bounded = self.input.switches.is_clients && !self.state.is_trimming;
        if is_bounded && self.outcome.operations.len() > 1 && self.postings() > max * maintained.layouts.len()
        {
            return Err(Stop::Error(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the operations change more than {max} index entries, too many for one transaction: split them"
                ),
            )));
        }
        Ok(())
    }

    /// How many rows of the index change so far.
    pub fn postings(&self) -> usize {
        self.state.index.postings.len()
    }

    pub fn changes_anything(&self) -> bool {
        !self.outcome.operations.is_empty()
    }

    /// Adds the writes alone, and returns the totals after them: the log of copied items is copied
    /// separately.
    pub fn into_copy(mut self, batch: &mut Batch) -> Plan<Counters> {
        self.record_size()?;
        add(self.state.writes.iter(), batch);
        self.state.index.postings.add_to(batch);
        Ok(self.state.counters)
    }

    /// The end of one step of several, whose size was recorded.
    pub fn into_step(self) -> Step {
        let before = self.input.counters;
        let change = SizeChange {
            items: self.state.counters.items.wrapping_sub(before.items) as i64,
            size_bytes: self.state.counters.size_bytes.wrapping_sub(before.size_bytes) as i64,
        };
        let mut writes = self.state.writes.into_list();
        // Sizes follow from the changes of all steps.
        writes.retain(|(key, _)| !self.outcome.recorded.iter().any(|(recorded, _)| recorded == key));
        let sized = self.outcome.recorded.into_iter().next().map(|(key, _)| key);
        Step { writes, change, sized, next_ordinal: self.state.counters.next_ordinal }
    }

    /// The values from before the transaction of the rows that it claims and that no earlier step
    /// has written.
    pub fn displaced(&self) -> Plan<Vec<(Bytes, Option<Bytes>)>> {
        let is_first = |key: &&Bytes| {
            keys::is_claimed(key) && self.input.base.is_none_or(|base| base.get(key).is_none())
        };
        let keys = self.state.writes.iter().map(|(key, _)| key).filter(is_first);
        keys.map(|key| Ok((key.clone(), self.stored(key)?))).collect()
    }

    pub fn into_batch(self) -> PlannedCommit {
        self.check_totals();
        #[cfg(feature = "testing")]
        let this = self.spoiled();
        #[cfg(not(feature = "testing"))]
        let this = self;
        this.planned()
    }

    /// The partition changes by the sum of its logical partitions.
    fn check_totals(&self) {
        let (before, after, sum) = (self.input.counters, self.state.counters, self.outcome.sum);
        let is_recorded = |sized: &Sized| sized.change == SizeChange::default();
        assert!(self.state.sized.as_ref().is_none_or(is_recorded), "sizes are recorded with their commit");
        assert_eq!(after.items, before.items.wrapping_add_signed(sum.items), "items of the partition");
        let size_bytes = before.size_bytes.wrapping_add_signed(sum.size_bytes);
        assert_eq!(after.size_bytes, size_bytes, "bytes of the partition");
    }

    /// With the mistake that a test has asked for.
    #[cfg(feature = "testing")]
    fn spoiled(mut self) -> Self {
        let (uid, operations) = (self.input.origin.uid, &mut self.outcome.operations);
        let Changes { writes, index, .. } = &mut self.state;
        crate::seeded::Written { uid, writes, postings: &mut index.postings, operations }.spoil();
        self
    }

    fn planned(mut self) -> PlannedCommit {
        assert!(self.input.base.is_none(), "the end of a transaction commits its steps together");
        let operations = entry::net(std::mem::take(&mut self.outcome.operations), self.input.lsn);
        let entry = LogEntry::new(self.input.time, self.state.counters, operations);
        let entry = LogEntry { origin: self.outcome.origin, ..entry };
        for (place, by) in &self.state.index.counts {
            let counted = &self.input.maintained.counted[*place];
            if let Some(count) = counted.after(*by) {
                let key = index::counter_key(self.input.origin.uid, counted.index_id, counted.path_hash);
                self.state.writes.put(key, Some(Bytes::copy_from_slice(&count.to_be_bytes())));
            }
        }
        let mut batch = Batch::new();
        if self.input.lsn == 1 {
            // From its first commit on, the partition has every item in these.
            batch.put(keys::expiry_mark_key(self.input.origin.uid), Bytes::new());
            batch.put(keys::created_mark_key(self.input.origin.uid), Bytes::new());
        }
        add(self.state.writes.iter(), &mut batch);
        let log_key = keys::log_key(self.input.origin.uid, self.input.lsn);
        #[cfg(feature = "testing")]
        if crate::seeded::loses_log_entry() {
            batch.delete(log_key);
        } else {
            batch.put(log_key, entry.encode());
        }
        #[cfg(not(feature = "testing"))]
        batch.put(log_key, entry.encode());
        self.state.index.postings.add_to(&mut batch);
        PlannedCommit {
            lsn: self.input.lsn,
            batch,
            time: self.input.time,
            counters: self.state.counters,
            operations: entry.operations,
            writes: self.state.writes.into_list(),
            counts: self.state.index.counts,
            recorded: self.outcome.recorded,
            due: self.outcome.due,
        }
    }
}

/// Whether a write makes a logical partition larger, and it or its physical partition, which has
/// `partition_bytes` then, too large.
fn grows_beyond(before: LogicalSize, after: LogicalSize, partition_bytes: u64, limits: &Limits) -> bool {
    let is_too_large = after.size_bytes > limits.logical_partition_size_bytes_max
        || partition_bytes > limits.physical_partition_size_bytes_hard_max;
    is_too_large && after.size_bytes > before.size_bytes
}

fn add<'w>(writes: impl Iterator<Item = &'w (Bytes, Option<Bytes>)>, batch: &mut Batch) {
    for (key, value) in writes {
        match value {
            Some(value) => batch.put(key.clone(), value.clone()),
            None => batch.delete(key.clone()),
        }
    }
}

/// When an item gets a unique value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    IfFree,
    Always,
}

/// An item's name in a partition, and the key that it makes.
pub(crate) struct ItemName<'n> {
    pub logical: &'n LogicalKey,
    pub id: &'n str,
    pub key: Bytes,
}

impl<'n> ItemName<'n> {
    pub fn new(uid: PartitionUid, logical: &'n LogicalKey, id: &'n str) -> Self {
        ItemName { logical, id, key: keys::item_key(uid, logical, id).into() }
    }

    /// Where the id begins in the key.
    fn id_at(&self) -> usize {
        self.key.len() - self.id.len()
    }

    fn created_key(&self, uid: PartitionUid, ordinal: u64) -> Vec<u8> {
        keys::created_key(uid, &self.key[HEADER..self.id_at()], ordinal)
    }
}

/// Result of a transaction.
#[derive(Debug)]
pub(crate) struct PlannedCommit {
    pub lsn: u64,
    pub batch: Batch,
    pub time: HybridTime,
    /// The partition's totals after it.
    pub counters: Counters,
    /// Those of its entry in the log.
    pub operations: Vec<LogOperation>,
    /// Writes that later plans may read, for the overlay.
    pub writes: Vec<(Bytes, Option<Bytes>)>,
    /// Changes of counts, by place in [`Maintained::counted`].
    pub counts: Vec<(usize, i64)>,
    /// Keys of the sizes of logical partitions, and the sizes after the commit.
    pub recorded: Vec<(Bytes, LogicalSize)>,
    /// When the first of the versions that it writes may run out.
    pub due: Due,
}

impl PlannedCommit {
    /// The partition after it.
    pub fn point(&self) -> Point {
        Point { lsn: self.lsn, time: self.time, counters: self.counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(logical: u64, hard: u64) -> Limits {
        Limits {
            logical_partition_size_bytes_max: logical,
            physical_partition_size_bytes_hard_max: hard,
            ..Limits::default()
        }
    }

    #[test]
    fn growth_over_a_limit_is_refused_and_nothing_else() {
        let size = |size_bytes| LogicalSize { items: 1, size_bytes };
        let kind = |before, after, partition| {
            let limits = limits(100, 500);
            let is_refused = grows_beyond(size(before), size(after), partition, &limits);
            is_refused.then(|| limit::refusal(size(after), &limits).kind())
        };
        assert_eq!(kind(0, 100, 100), None);
        assert_eq!(kind(100, 101, 101), Some(ErrorKind::LogicalPartitionFull));
        assert_eq!(kind(200, 200, 200), None, "no larger than before");
        assert_eq!(kind(200, 150, 150), None, "smaller, though still too large");
        assert_eq!(kind(50, 60, 501), Some(ErrorKind::PartitionFull));
        assert_eq!(kind(60, 50, 501), None);
    }
}
