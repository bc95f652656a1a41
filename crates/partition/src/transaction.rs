//! One commit in the making: reads see the engine, queued commits and the transaction's own writes; writes collect.
//!
//! A transaction lives under the partition's sequencer lock. Dropping it leaves no trace; [`Transaction::into_batch`]
//! turns it into the one batch that is committed, with its change-log entry.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_document::RawValue;
use shardlake_model::{Error, ErrorKind, KeyPath, Result};
use shardlake_stdx::Timestamp;
use shardlake_storage::{Batch, Seq, Shard};
use std::sync::Arc;

use crate::LogicalKey;
use crate::beside::beside_planning;
use crate::change_log::{self, ChangeKind, Counters, LogEntry, LogOperation};
use crate::expire::Due;
use crate::heavy::Ahead;
use crate::index::{self, IndexChange, Maintained, PostingOps};
use crate::item::StoredItem;
use crate::keys::{self, HEADER, PartitionUid};
use crate::pending::Pending;
use crate::shape::ContainerShape;
use crate::sizes::{LogicalSize, RecentSizes, SizeChange, limit};

/// What a transaction does where it meets a heavy item whose terms it does not know.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Foresight<'a> {
    /// It finds them out while it holds the sequencer.
    #[default]
    None,
    /// It fails: the caller is to look ahead and to begin anew.
    Wanted,
    /// The caller has looked ahead. Where an item has changed since, or is the transaction's own, the same as `None`.
    Known(&'a Ahead),
}

/// What a transaction plans on, besides the engine.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub pending: &'a Pending,
    pub maintained: &'a Maintained,
    /// `None` where nobody keeps them.
    pub sizes: Option<&'a RecentSizes>,
    /// What the transaction has written before, where it is planned step by step.
    pub base: Option<&'a Base>,
}

/// What the steps of a transaction have come to so far.
#[derive(Debug, Default)]
pub(crate) struct Base {
    writes: FxHashMap<Vec<u8>, Option<Bytes>>,
    change: SizeChange,
    size_bytes: usize,
}

impl Base {
    /// The totals of a partition with what was written so far.
    pub fn on(&self, counters: Counters) -> Counters {
        Counters {
            items: counters.items.wrapping_add_signed(self.change.items),
            size_bytes: counters.size_bytes.wrapping_add_signed(self.change.size_bytes),
            next_ordinal: counters.next_ordinal,
        }
    }

    pub fn add(&mut self, step: Step) {
        self.change.items += step.change.items;
        self.change.size_bytes += step.change.size_bytes;
        for (key, value) in step.writes {
            self.size_bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            self.writes.insert(key, value);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// What all steps have written, also where a later one has written it again.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

/// One step of a transaction that goes on.
pub(crate) struct Step {
    pub writes: FxHashMap<Vec<u8>, Option<Bytes>>,
    change: SizeChange,
    /// The first ordinal that it left.
    pub next_ordinal: u64,
}

/// The logical partition that a transaction writes to.
struct Sized {
    key: Vec<u8>,
    /// Before the transaction, where that was looked up.
    before: Option<LogicalSize>,
    change: SizeChange,
}

pub(crate) struct Transaction<'a> {
    pub uid: PartitionUid,
    pub shape: &'a Arc<ContainerShape>,
    shard: &'a Shard,
    pending: &'a Pending,
    maintained: &'a Maintained,
    sizes: Option<&'a RecentSizes>,
    base: Option<&'a Base>,
    /// Changes of postings, in the order of the writes.
    postings: PostingOps,
    /// Changes of counts that are not stored yet, by place in [`Maintained::counted`].
    pending_counts: Vec<(usize, i64)>,
    writes: FxHashMap<Vec<u8>, Option<Bytes>>,
    operations: Vec<LogOperation>,
    counters: Counters,
    sized: Option<Sized>,
    /// The sizes of logical partitions after the transaction.
    recorded: Vec<(Vec<u8>, LogicalSize)>,
    /// Of the versions it writes.
    due: Due,
    pub lsn: u64,
    pub now: Timestamp,
    /// What the log says of the time: not before its last entry.
    pub timestamp_ms: u64,
    /// Versions that end are kept.
    pub keeps_versions: bool,
    /// It does what a client asked for.
    pub is_clients: bool,
    pub foresight: Foresight<'a>,
    /// It has failed for want of foresight.
    pub lacks_foresight: bool,
}

impl<'a> Transaction<'a> {
    pub fn new(
        uid: PartitionUid,
        shape: &'a Arc<ContainerShape>,
        shard: &'a Shard,
        view: View<'a>,
        position: (u64, Counters),
        now: Timestamp,
    ) -> Self {
        let (last_lsn, counters) = position;
        Transaction {
            uid,
            shape,
            shard,
            pending: view.pending,
            maintained: view.maintained,
            sizes: view.sizes,
            base: view.base,
            postings: PostingOps::default(),
            pending_counts: Vec::new(),
            writes: FxHashMap::default(),
            operations: Vec::new(),
            counters,
            sized: None,
            recorded: Vec::new(),
            due: Due::NEVER,
            lsn: last_lsn + 1,
            now,
            timestamp_ms: now.milliseconds(),
            keeps_versions: false,
            is_clients: false,
            foresight: Foresight::None,
            lacks_foresight: false,
        }
    }

    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(written) = self.writes.get(key) {
            return Ok(written.clone());
        }
        if let Some(written) = self.base.and_then(|base| base.writes.get(key)) {
            return Ok(written.clone());
        }
        if let Some(queued) = self.pending.get(key) {
            return Ok(queued);
        }
        self.shard.get_applied(key).await.map_err(crate::storage_error)
    }

    /// The item under a key, also when its time to live has run out.
    pub async fn item(&self, key: &[u8]) -> Result<Option<StoredItem>> {
        let Some(bytes) = self.get(key).await? else { return Ok(None) };
        if let Foresight::Known(ahead) = self.foresight
            && let Some(known) = ahead.item(key, &bytes)
        {
            return Ok(Some(known.clone()));
        }
        StoredItem::decode(bytes, self.shape).map(Some)
    }

    /// Fails where the item that an operation takes the place of should have been looked at before.
    pub fn check_foreseen(&mut self, existing: Option<&StoredItem>) -> Result<()> {
        let is_wanted = matches!(self.foresight, Foresight::Wanted);
        self.lacks_foresight = is_wanted && existing.is_some_and(StoredItem::is_heavy);
        match self.lacks_foresight {
            true => Err(Error::internal("the transaction is to begin anew")),
            false => Ok(()),
        }
    }

    pub fn new_ordinal(&mut self, rid_prefix: u32) -> u64 {
        let ordinal = self.counters.next_ordinal;
        self.counters.next_ordinal += 1;
        assert!(ordinal < 1 << 40, "a partition hands out fewer than 2^40 ordinals");
        u64::from(rid_prefix) << 40 | ordinal
    }

    /// Writes a version of an item. `old` is the version it takes the place of; `kind` is what the log says of it.
    pub async fn put(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        item: &StoredItem,
        old: Option<&StoredItem>,
        kind: ChangeKind,
    ) -> Result<()> {
        self.put_version(logical, id, item, old, kind, Claim::IfFree).await
    }

    /// Writes the version that another partition decided on: unique values are its items' whoever has had them here.
    pub async fn put_copy(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        item: &StoredItem,
        old: Option<&StoredItem>,
    ) -> Result<()> {
        self.put_version(logical, id, item, old, ChangeKind::Replace, Claim::Always).await
    }

    /// Writes the version that a transaction of several steps has come to: these have claimed its unique values. Where it has
    /// another ordinal than `old`, that was taken out before.
    pub async fn put_decided(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        item: &StoredItem,
        old: Option<&StoredItem>,
        kind: ChangeKind,
    ) -> Result<()> {
        let ordinal = item.envelope().ordinal;
        self.log_version(logical, id, ordinal, old, kind);
        let displaced = old.filter(|old| old.envelope().ordinal == ordinal);
        self.put_in(logical, id, item, displaced, Claim::Always).await
    }

    async fn put_version(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        item: &StoredItem,
        old: Option<&StoredItem>,
        kind: ChangeKind,
        claim: Claim,
    ) -> Result<()> {
        self.log_version(logical, id, item.envelope().ordinal, old, kind);
        self.put_in(logical, id, item, old, claim).await
    }

    fn log_version(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        ordinal: u64,
        old: Option<&StoredItem>,
        kind: ChangeKind,
    ) {
        let key = keys::item_key(self.uid, logical, id);
        match old.filter(|_| kind == ChangeKind::Create) {
            // Its time had run out: that is a change of its own.
            Some(expired) => {
                self.log(ChangeKind::Expire, expired.envelope().ordinal, Some(expired), &key);
                self.log(kind, ordinal, None, &key);
            }
            None => self.log(kind, ordinal, old, &key),
        }
    }

    /// All of a version but its entry in the log.
    async fn put_in(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        item: &StoredItem,
        old: Option<&StoredItem>,
        claim: Claim,
    ) -> Result<()> {
        #[cfg(feature = "testing")]
        crate::seeded::panic_if(crate::seeded::Mistake::PanicWhilePlanning);
        if let Some(old) = old {
            self.release_unique_keys(logical, id, old).await?;
        }
        self.claim_unique_keys(logical, id, item, claim).await?;
        self.count(logical, old, Some(item));
        let key = keys::item_key(self.uid, logical, id);
        let ordinal = item.envelope().ordinal;
        if old.map(|old| old.envelope().ordinal) != Some(ordinal) {
            if let Some(old) = old {
                self.writes.insert(keys::ordinal_key(self.uid, old.envelope().ordinal), None);
            }
            let value = Bytes::copy_from_slice(&key[HEADER..]);
            self.writes.insert(keys::ordinal_key(self.uid, ordinal), Some(value));
        }
        self.writes.insert(key, Some(item.record_bytes()));
        self.due.note(item.envelope());
        self.index(old, Some(item)).await
    }

    pub async fn delete(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        old: &StoredItem,
        kind: ChangeKind,
    ) -> Result<()> {
        let key = keys::item_key(self.uid, logical, id);
        self.log(kind, old.envelope().ordinal, Some(old), &key);
        self.take_out(logical, id, old).await
    }

    /// All of a deletion but its entry in the log.
    pub async fn take_out(&mut self, logical: &LogicalKey, id: &str, old: &StoredItem) -> Result<()> {
        self.release_unique_keys(logical, id, old).await?;
        self.count(logical, Some(old), None);
        self.writes.insert(keys::ordinal_key(self.uid, old.envelope().ordinal), None);
        self.writes.insert(keys::item_key(self.uid, logical, id), None);
        self.index(Some(old), None).await
    }

    /// Notes an item's change in the totals of the partition and of the logical partition.
    fn count(&mut self, logical: &LogicalKey, old: Option<&StoredItem>, new: Option<&StoredItem>) {
        let size = |item: Option<&StoredItem>| item.map_or(0, |item| item.json_size_bytes() as i64);
        let by = SizeChange {
            items: i64::from(new.is_some()) - i64::from(old.is_some()),
            size_bytes: size(new) - size(old),
        };
        self.counters.items = self.counters.items.wrapping_add_signed(by.items);
        self.counters.size_bytes = self.counters.size_bytes.wrapping_add_signed(by.size_bytes);
        let sized = self.sized(logical);
        sized.change.items += by.items;
        sized.change.size_bytes += by.size_bytes;
    }

    fn sized(&mut self, logical: &LogicalKey) -> &mut Sized {
        let uid = self.uid;
        let sized = self.sized.get_or_insert_with(|| Sized {
            key: keys::size_key(uid, logical),
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

    /// By how much the logical partition has grown so far.
    pub fn growth_bytes(&self) -> i64 {
        self.sized.as_ref().map_or(0, |sized| sized.change.size_bytes)
    }

    /// The size of a logical partition before the transaction.
    async fn size_before(&self, key: &[u8]) -> Result<LogicalSize> {
        let committed = match self.sizes.and_then(|sizes| sizes.get(key)) {
            Some(known) => known,
            None => {
                self.get(key).await?.as_deref().map_or(Ok(LogicalSize::default()), LogicalSize::decode)?
            }
        };
        self.base.map_or(Ok(committed), |base| committed.changed_by(base.change))
    }

    /// Whether the transaction's logical partition holds no item now: then there is none to look for.
    pub async fn is_empty(&mut self, logical: &LogicalKey) -> Result<bool> {
        self.sized(logical);
        let mut sized = self.sized.take().expect("it was just made");
        if sized.before.is_none() {
            sized.before = Some(self.size_before(&sized.key).await?);
        }
        let items = sized.before.map_or(0, |before| before.items);
        let is_empty = items.checked_add_signed(sized.change.items) == Some(0);
        self.sized = Some(sized);
        Ok(is_empty)
    }

    /// Writes the size of the logical partition if it is another one after the last change, and gives it with the old one.
    /// Another logical partition may follow, but not the same again.
    pub async fn record_size(&mut self) -> Result<Option<(LogicalSize, LogicalSize)>> {
        let changed = self.sized.take().filter(|sized| sized.change != SizeChange::default());
        let Some(Sized { key, before, change }) = changed else { return Ok(None) };
        let before = match before {
            Some(before) => before,
            None => self.size_before(&key).await?,
        };
        let after = before.changed_by(change)?;
        self.writes.insert(key.clone(), (after.items > 0).then(|| after.encode()));
        self.recorded.push((key, after));
        Ok(Some((before, after)))
    }

    /// Likewise for what a client writes: refuses what would take the logical partition or the partition over its limit.
    pub async fn record_size_within_limits(&mut self) -> Result<()> {
        match self.record_size().await? {
            Some((before, after)) => {
                limit::check(before, after, self.counters.size_bytes, &self.shape.limits)
            }
            None => Ok(()),
        }
    }

    async fn index(&mut self, old: Option<&StoredItem>, new: Option<&StoredItem>) -> Result<()> {
        let postings = std::mem::take(&mut self.postings);
        let mut change = IndexChange { postings, counts: Vec::new() };
        if old.into_iter().chain(new).any(StoredItem::is_heavy) {
            let (uid, maintained) = (self.uid, self.maintained.clone());
            let (old, new) = (old.cloned(), new.cloned());
            change = beside_planning(move || {
                maintained.change(uid, old.as_ref(), new.as_ref(), &mut change);
                change.postings.seal();
                change
            })
            .await?;
        } else {
            self.maintained.change(self.uid, old, new, &mut change);
        }
        self.postings = change.postings;
        // A single operation may exceed it: an item stored under another policy can have any number of terms. What the server
        // does for itself keeps to bounds of its own, since nobody could split it.
        let entries_max = self.shape.limits.transaction_index_entries_max * self.maintained.layouts.len();
        if self.is_clients && self.operations.len() > 1 && self.postings.len() > entries_max {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the operations change more than {} index entries, too many for one transaction: split them",
                    self.shape.limits.transaction_index_entries_max
                ),
            ));
        }
        for (place, by) in change.counts {
            let counted = self.maintained.counted[place];
            if counted.pending.is_some() {
                self.pending_counts.push((place, by));
                continue;
            }
            let key = index::counter_key(self.uid, counted.index_id, counted.path_hash);
            let stored = self.get(&key).await?;
            let count = stored.as_deref().map_or(Ok(0), index::decode_counter)?.saturating_add_signed(by);
            self.writes.insert(key, Some(Bytes::copy_from_slice(&count.to_be_bytes())));
        }
        Ok(())
    }

    fn log(&mut self, kind: ChangeKind, ordinal: u64, old: Option<&StoredItem>, key: &[u8]) {
        let previous_lsn = old.map_or(0, StoredItem::lsn);
        // What the transaction itself has written is no version that anybody sees.
        if let Some(old) = old.filter(|old| self.keeps_versions && old.lsn() != self.lsn) {
            let version = keys::version_key(self.uid, &key[HEADER..], old.lsn());
            self.writes.insert(version, Some(old.record_bytes()));
        }
        self.operations.push(LogOperation { kind, ordinal, previous_lsn, key: key[HEADER..].to_vec() });
    }

    async fn claim_unique_keys(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        item: &StoredItem,
        claim: Claim,
    ) -> Result<()> {
        for (key, paths) in self.unique_keys_of(logical, item) {
            if claim == Claim::IfFree
                && let Some(holder) = self.get(&key).await?
                && holder != id.as_bytes()
                && self.is_live(logical, &holder).await?
            {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "Unique index constraint violation: another item of this logical partition has the same {paths}"
                    ),
                ));
            }
            self.writes.insert(key, Some(Bytes::copy_from_slice(id.as_bytes())));
        }
        Ok(())
    }

    async fn release_unique_keys(&mut self, logical: &LogicalKey, id: &str, old: &StoredItem) -> Result<()> {
        for (key, _) in self.unique_keys_of(logical, old) {
            // An item that outlived its time may have lost the value to another one.
            if self.get(&key).await?.is_some_and(|holder| holder == id.as_bytes()) {
                self.writes.insert(key, None);
            }
        }
        Ok(())
    }

    async fn is_live(&self, logical: &LogicalKey, id: &[u8]) -> Result<bool> {
        let id = std::str::from_utf8(id).map_err(crate::corrupt)?;
        let holder = self.item(&keys::item_key(self.uid, logical, id)).await?;
        Ok(holder.is_some_and(|item| !item.is_expired(self.now.seconds())))
    }

    /// Each unique key's storage key, with its paths in words.
    fn unique_keys_of(&self, logical: &LogicalKey, item: &StoredItem) -> Vec<(Vec<u8>, String)> {
        let words = |paths: &[KeyPath]| {
            let names: Vec<String> = paths.iter().map(|path| format!("/{}", path.0.join("/"))).collect();
            names.join(", ")
        };
        let keys = self.shape.unique_keys.iter().enumerate();
        keys.map(|(index, paths)| {
            let values: Vec<Option<RawValue<'_>>> =
                paths.iter().map(|path| item.body().get_path(&path.0)).collect();
            (keys::unique_key(self.uid, index as u8, logical, &values), words(paths))
        })
        .collect()
    }

    /// How many rows of the index change so far.
    pub fn postings(&self) -> usize {
        self.postings.len()
    }

    pub fn changes_anything(&self) -> bool {
        !self.operations.is_empty()
    }

    /// The last commit that this transaction's reads may rest on.
    pub fn queued(&self) -> Seq {
        self.pending.last_seq().unwrap_or_else(|| self.shard.applied())
    }

    /// Adds the writes alone, and gives the totals after them: the log of what is copied comes from elsewhere.
    pub async fn into_copy(mut self, batch: &mut Batch) -> Result<Counters> {
        self.record_size().await?;
        for (key, value) in self.writes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        self.postings.add_to(batch);
        Ok(self.counters)
    }

    /// The end of one step of several, whose size was recorded; `before` are the totals that it began with.
    pub fn into_step(mut self, before: Counters) -> Step {
        for (key, _) in self.recorded {
            // It follows from the changes of all steps.
            self.writes.remove(&key);
        }
        let change = SizeChange {
            items: self.counters.items.wrapping_sub(before.items) as i64,
            size_bytes: self.counters.size_bytes.wrapping_sub(before.size_bytes) as i64,
        };
        Step { writes: self.writes, change, next_ordinal: self.counters.next_ordinal }
    }

    pub fn into_batch(self) -> PlannedCommit {
        #[cfg(feature = "testing")]
        let this = self.spoiled();
        #[cfg(not(feature = "testing"))]
        let this = self;
        this.planned()
    }

    /// With the mistake that a test has asked for.
    #[cfg(feature = "testing")]
    fn spoiled(mut self) -> Self {
        let Transaction { uid, writes, postings, operations, .. } = &mut self;
        crate::seeded::Written { uid: *uid, writes, postings, operations }.spoil();
        self
    }

    fn planned(self) -> PlannedCommit {
        let entry = LogEntry {
            timestamp_ms: self.timestamp_ms,
            counters: self.counters,
            operations: change_log::net(self.operations, self.lsn),
        };
        let mut batch = Batch::new();
        let mut writes = Vec::with_capacity(self.writes.len());
        for (key, value) in self.writes {
            // Shared between the batch and the overlay.
            let key = Bytes::from(key);
            match &value {
                Some(value) => batch.put(key.clone(), value.clone()),
                None => batch.delete(key.clone()),
            }
            writes.push((key, value));
        }
        let log_key = keys::log_key(self.uid, self.lsn);
        #[cfg(feature = "testing")]
        if crate::seeded::loses_log_entry() {
            batch.delete(log_key);
        } else {
            batch.put(log_key, entry.encode());
        }
        #[cfg(not(feature = "testing"))]
        batch.put(log_key, entry.encode());
        self.postings.add_to(&mut batch);
        PlannedCommit {
            batch,
            timestamp_ms: self.timestamp_ms,
            counters: self.counters,
            writes,
            pending_counts: self.pending_counts,
            recorded: self.recorded,
            due: self.due,
        }
    }
}

/// When an item gets a unique value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    IfFree,
    Always,
}

/// What a transaction comes to.
pub(crate) struct PlannedCommit {
    pub batch: Batch,
    pub timestamp_ms: u64,
    /// The partition's totals after it.
    pub counters: Counters,
    /// The same writes, for the overlay.
    pub writes: Vec<(Bytes, Option<Bytes>)>,
    /// Changes of counts that are not stored yet, by place in [`Maintained::counted`].
    pub pending_counts: Vec<(usize, i64)>,
    /// Where the sizes of logical partitions lie, and what they are after the commit.
    pub recorded: Vec<(Vec<u8>, LogicalSize)>,
    /// When the first of the versions that it writes may run out.
    pub due: Due,
}
