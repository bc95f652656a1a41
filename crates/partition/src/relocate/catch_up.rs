//! Catch-up of a relocation: applies changes in the sources since a target's positions. For every
//! item that the log names, the target gets the source's current version, which may be newer than
//! the entry and is then only confirmed by later ones.
//!
//! A round is a bounded number of log entries of one source. The target's part of it ends with the
//! commit that moves its position; if that is not reached, the round is applied again, which
//! changes nothing that is there already.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use shardlake_model::Result;
use shardlake_stdx::{Clock, HybridTime, Timestamp};
use shardlake_storage::{Batch, LARGE_ROWS_IN_FLIGHT, PacedWork, ScanOptions, Shard, Snapshot};

use super::{Relocation, SeededBug, nothing_pending};
use crate::core::Core;
use crate::cpu_pool::offload_planning;
use crate::index::Maintained;
use crate::item::StoredItem;
use crate::key_list::KeyList;
use crate::keys::{self, ITEMS, PartitionUid};
use crate::log::entries::Entries;
use crate::log::entry::{ChangeKind, Counters, LogEntry, LogOperation};
use crate::origin::Origin;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::shape::ContainerSchema;
use crate::write::{ItemName, PlanInput, Switches, Transaction};

pub(super) const ROUND_ENTRIES: usize = 512;
/// Operations of these entries together, about: a transaction may have written a hundred items.
const ROUND_OPERATIONS: usize = 4 * ROUND_ENTRIES;
/// Items and versions, which may be large, that are read at once.
const RECORDS_AT_ONCE: usize = 64;
/// Bytes that they may have together, estimated from the usual size of an item.
const RECORDS_BYTES: u64 = 64 * 1024 * 1024;
const COMMIT_BYTES: usize = 2 * 1024 * 1024;
/// Rows of one commit that clients' commits may have to wait for, as for a transaction of a hundred items.
const HURRIED_ROWS: usize = 2048;
/// Rows of one commit while writers wait anyway.
const COMMIT_ROWS: usize = LARGE_ROWS_IN_FLIGHT;
/// Rows that count for an item in a piece: reading and planning an item takes about as long as
/// writing several rows.
const ROWS_FOR_AN_ITEM: usize = 8;

/// So few entries are for the cutover.
const FEW_ENTRIES: u64 = ROUND_ENTRIES as u64 / 8;

/// Share of the time that a round leaves to the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// It rests as all background work does, so that clients feel little of it; on a thread of its
    /// own.
    Background,
    /// It does larger pieces, and rests between none.
    Hurried,
}

/// How a round continues from one piece to the next.
pub(super) enum Pace {
    Background(PacedWork),
    /// Counts as background work in the latency measurements, and does not rest.
    Hurried(PacedWork),
    /// While writers wait, until a time: large pieces.
    Held {
        clock: Clock,
        deadline: Duration,
    },
}

impl Pace {
    /// Rows of one piece.
    fn rows(&self) -> usize {
        match self {
            Pace::Background(work) => work.rows(),
            Pace::Hurried(work) => work.rows().max(HURRIED_ROWS),
            Pace::Held { .. } => COMMIT_ROWS,
        }
    }

    async fn pause(&mut self) {
        match self {
            Pace::Background(work) => work.pause().await,
            Pace::Hurried(_) | Pace::Held { .. } => tokio::task::yield_now().await,
        }
    }

    fn holds_writers(&self) -> bool {
        matches!(self, Pace::Held { .. })
    }

    /// Writers have waited long enough.
    fn is_over(&self) -> bool {
        matches!(self, Pace::Held { clock, deadline } if clock.elapsed() > *deadline)
    }
}

impl Relocation {
    /// Rounds until little is left to do, or until they gain too little on the writers. Returns
    /// `true` if little is left.
    pub async fn catch_up(&mut self, haste: Haste) -> Result<bool> {
        let work = self.paced_work();
        let mut pace = match haste {
            Haste::Background => Pace::Background(work.on_its_own_thread()),
            Haste::Hurried => Pace::Hurried(work),
        };
        let mut before = u64::MAX;
        loop {
            self.progress.check()?;
            let lag = self.note_lag();
            if lag <= FEW_ENTRIES {
                return Ok(true);
            }
            // A round gains on the writers that leaves at most three quarters.
            if lag > before - before / 4 {
                return Ok(false);
            }
            before = lag;
            if !self.catch_up_round(&mut pace).await? {
                return Ok(false);
            }
        }
    }

    /// Log entries that the targets do not have yet.
    fn note_lag(&self) -> u64 {
        let positions =
            |place: usize| self.targets.iter().map(|target| target.state.positions[place]).min().unwrap_or(0);
        let sources = self.sources.iter().enumerate();
        let lag = sources.map(|(place, source)| source.durable_lsn().saturating_sub(positions(place))).sum();
        self.progress.lag.store(lag, Ordering::Relaxed);
        lag
    }

    /// Applies everything that is durable now. Returns whether it came to its end: work done before
    /// a deadline stays done. In the background it also ends where clients write more meanwhile
    /// than it has applied.
    pub(super) async fn catch_up_round(&mut self, pace: &mut Pace) -> Result<bool> {
        let before = self.note_lag();
        for source in 0..self.sources.len() {
            let snapshot = self.sources[source].shard().snapshot();
            while self.apply_entries(source, &snapshot, pace).await? {
                self.progress.check()?;
                let loses = self.note_lag() > before;
                if pace.is_over() || loses && matches!(pace, Pace::Background(_)) {
                    return Ok(false);
                }
                pace.pause().await;
            }
        }
        Ok(true)
    }

    /// Applies entries of one source from a snapshot, and returns whether there were any.
    async fn apply_entries(&mut self, source: usize, snapshot: &Snapshot, pace: &mut Pace) -> Result<bool> {
        let uid = self.sources[source].uid;
        let from = self.targets.iter().map(|target| target.state.positions[source]).min().unwrap_or(0);
        let entries_max = pace.rows().min(ROUND_ENTRIES);
        let options = ScanOptions { limit: Some(entries_max), ..ScanOptions::SWEEP };
        let mut log = Entries::behind(uid, snapshot, self.sources[source].past.marks(), from, options);
        let (mut entries, mut operations) = (Vec::new(), 0);
        while operations < ROUND_OPERATIONS {
            let some = log.next(entries_max, ROUND_OPERATIONS - operations).await?;
            if some.is_empty() {
                break;
            }
            operations += some.iter().map(|(_, entry)| entry.operations.len()).sum::<usize>();
            entries.extend(some);
        }
        if entries.is_empty() {
            return Ok(false);
        }
        if self.has_bug(SeededBug::SkippedCatchUp) && entries.len() > 1 {
            entries.iter_mut().for_each(|(_, entry)| entry.operations.clear());
        }
        for place in 0..self.targets.len() {
            // Targets may be apart where a crash came between their commits.
            let own = self.targets[place].state.positions[source];
            let entries = entries.iter().filter(|(lsn, _)| *lsn > own);
            let parts: Vec<_> =
                entries.map(|(lsn, entry)| (*lsn, entry.part(|key| self.target_of(key) == place))).collect();
            if !self.apply_to(place, (source, snapshot), &parts, pace).await? {
                break;
            }
        }
        Ok(true)
    }

    /// Returns whether all of them are applied. Where not, because it took too long, the position
    /// stays and they are applied again: changes that the target has already are then confirmed.
    async fn apply_to(
        &mut self,
        place: usize,
        (source, snapshot): (usize, &Snapshot),
        entries: &[(u64, LogEntry)],
        pace: &mut Pace,
    ) -> Result<bool> {
        let Some((last, _)) = entries.last() else { return Ok(true) };
        let source_uid = self.sources[source].uid;
        let mut batch = Batch::new();
        for keys in by_logical_partition(entries)? {
            let mut keys = &keys[..];
            while !keys.is_empty() {
                let rows_max = pace.rows();
                let count =
                    self.apply_items(place, (source_uid, snapshot), keys, rows_max, &mut batch).await?;
                keys = &keys[count..];
                // Changes committed before the position are only confirmed when the entries are
                // applied again.
                let is_full = batch.size_bytes() >= COMMIT_BYTES || batch.len() >= rows_max;
                if is_full || !keys.is_empty() && !batch.is_empty() {
                    self.commit(place, std::mem::take(&mut batch), pace.holds_writers()).await?;
                    // A repeated round finds these confirmed, so that each one brings the end
                    // nearer.
                    if pace.is_over() {
                        return Ok(false);
                    }
                }
                if !keys.is_empty() {
                    pace.pause().await;
                }
            }
        }
        let target = &self.targets[place];
        let operations = entries.iter().flat_map(|(_, entry)| &entry.operations);
        let ended: Vec<_> = operations.filter(|operation| operation.previous_lsn > 0).collect();
        for together in ended.chunks(self.records_at_once()) {
            let version = |uid, ended: &LogOperation| keys::version_key(uid, &ended.key, ended.previous_lsn);
            let mut versions = KeyList::default();
            together.iter().for_each(|ended| versions.push(&[&version(source_uid, ended)]));
            let versions = snapshot.get_many(versions.finish()).await.map_err(crate::storage_error)?;
            for (ended, record) in together.iter().zip(versions) {
                if let Some(record) = record {
                    batch.put(version(target.uid(), ended), record);
                }
                if batch.size_bytes() >= COMMIT_BYTES {
                    self.commit(place, std::mem::take(&mut batch), pace.holds_writers()).await?;
                }
            }
        }
        let written = entries.iter().filter(|(_, entry)| !entry.operations.is_empty());
        let mut others = vec![None; entries.len()];
        if self.sources.len() > 1 {
            let keys = written.clone().map(|(lsn, _)| keys::log_key(target.uid(), *lsn).into()).collect();
            others = target.shard.view().get_many(keys).await.map_err(crate::storage_error)?;
        }
        for ((lsn, entry), other) in written.zip(others) {
            let mut entry = entry.clone();
            if let Some(other) = other {
                entry.join_stored(&other)?;
            }
            batch.put(keys::log_key(target.uid(), *lsn), entry.encode());
        }
        let position = &mut self.targets[place].state.positions[source];
        assert!(*position < *last, "a target follows the log forwards");
        *position = *last;
        self.commit(place, batch, pace.holds_writers()).await.map(|()| true)
    }

    /// Adds the items of one logical partition to a batch, as the source has them, until there are
    /// many rows. Returns their number.
    async fn apply_items(
        &mut self,
        place: usize,
        (source_uid, snapshot): (PartitionUid, &Snapshot),
        item_keys: &[&[u8]],
        rows_max: usize,
        batch: &mut Batch,
    ) -> Result<usize> {
        let (target, shape) = (&self.targets[place], &self.shape);
        // Items may be large: reads at once are bounded by their number, writes by their rows.
        let items_max = (rows_max / ROWS_FOR_AN_ITEM).clamp(1, self.records_at_once());
        let item_keys = &item_keys[..item_keys.len().min(items_max)];
        let (mut stored_keys, header) = (KeyList::default(), keys::header(source_uid, ITEMS, 0));
        item_keys.iter().for_each(|key| stored_keys.push(&[&header, key]));
        let stored = snapshot.get_many(stored_keys.finish()).await.map_err(crate::storage_error)?;
        let mut items = Vec::with_capacity(stored.len());
        for (key, record) in item_keys.iter().zip(stored) {
            let item = record.map(|record| StoredItem::decode(record, shape)).transpose()?;
            items.push((Bytes::copy_from_slice(key), item));
        }
        let copy = Arc::new(Copy {
            origin: target.identity.origin(),
            shape: shape.clone(),
            shard: target.shard.clone(),
            maintained: self.maintained.clone(),
            counters: target.state.counters,
            items,
            rows_max,
        });
        let (added, counters, count) = copy.planned().await?;
        let size_bytes = added.size_bytes();
        batch.append(added.into_ops(), size_bytes);
        self.targets[place].state.counters = counters;
        Ok(count)
    }

    fn records_at_once(&self) -> usize {
        let of_source = |source: &Arc<Core>| source.usual_items_in(RECORDS_BYTES);
        self.sources.iter().map(of_source).min().map_or(1, |items| items.min(RECORDS_AT_ONCE))
    }

    /// Stores writes with the target's state after them.
    async fn commit(&self, place: usize, mut batch: Batch, holds_writers: bool) -> Result<()> {
        let target = &self.targets[place];
        batch.put(keys::relocation_key(target.uid()), target.state.encode());
        let commit = match holds_writers {
            // Large commits with a permit may wait for the sources' sequencers, so this one must
            // not wait for a permit.
            true => target.shard.commit_without_turn(batch).await,
            false => target.shard.commit_in_background(batch).await,
        };
        commit.map_err(crate::storage_error)
    }
}

/// The keys of the items that entries name, each once.
fn by_logical_partition(entries: &[(u64, LogEntry)]) -> Result<Vec<Vec<&[u8]>>> {
    let mut places: FxHashMap<&[u8], usize> = FxHashMap::default();
    let mut groups: Vec<Vec<&[u8]>> = Vec::new();
    let mut seen = FxHashSet::default();
    for operation in entries.iter().flat_map(|(_, entry)| &entry.operations) {
        if seen.insert(&operation.key[..]) {
            let logical = keys::logical_part(&operation.key).ok_or_else(crate::malformed_key)?;
            let place = *places.entry(logical).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(&operation.key);
        }
    }
    Ok(groups)
}

/// Items of one logical partition on their way to a target, which has no other writer.
struct Copy {
    origin: Origin,
    shape: Arc<ContainerSchema>,
    shard: Shard,
    maintained: Maintained,
    counters: Counters,
    /// By their keys without header; `None` where the source has none.
    items: Vec<(Bytes, Option<StoredItem>)>,
    /// Limit of index rows in one commit.
    rows_max: usize,
}

impl Copy {
    /// The plan, with its reads of the target's shard, offloaded where there are heavy items.
    async fn planned(self: Arc<Self>) -> Result<(Batch, Counters, usize)> {
        let mut is_offloaded =
            self.items.iter().any(|(_, item)| item.as_ref().is_some_and(StoredItem::is_heavy));
        let mut reads = ReadSet::default();
        loop {
            let planned = if is_offloaded {
                let (copy, taken) = (self.clone(), std::mem::take(&mut reads));
                let planned;
                (reads, planned) = offload_planning(move || {
                    let planned = copy.plan(&taken, true);
                    (taken, planned)
                })
                .await?;
                planned
            } else {
                self.plan(&reads, false)
            };
            match planned {
                Ok(planned) => return Ok(planned),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Oldest(_)) => {
                    return Err(shardlake_model::Error::internal("a copy removes no items of its own"));
                }
                Err(Stop::Heavy) => is_offloaded = true,
                Err(Stop::Wanted(mut keys)) => {
                    let own = |key: &Bytes| keys::with_header(self.origin.uid, ITEMS, key).into();
                    keys.extend(self.items.iter().map(|(key, _)| own(key)));
                    reads.fetch(&self.shard, &self.shape, keys).await?;
                }
            }
        }
    }

    /// The writes, the target's totals after them, and how many items were dealt with.
    fn plan(&self, reads: &ReadSet, is_offloaded: bool) -> Plan<(Batch, Counters, usize)> {
        let (pending, maintained) = (nothing_pending(), &self.maintained);
        // No item expires by it, and no version is made: copies keep theirs.
        let (now, time) = (Timestamp(0), HybridTime::default());
        let mut transaction = Transaction::new(PlanInput {
            origin: self.origin,
            shape: &self.shape,
            shard: &self.shard,
            lsn: 1,
            counters: self.counters,
            now,
            time,
            pending,
            reads,
            maintained,
            // Their log entries, which are copied, have the ended rows.
            watch: None,
            sizes: None,
            oldest: None,
            base: None,
            switches: Switches { is_offloaded, ..Switches::default() },
        });
        let mut count = 0;
        for (key, item) in &self.items {
            if transaction.postings() >= self.rows_max {
                break;
            }
            transfer(&mut transaction, key, item.as_ref())?;
            count += 1;
        }
        let mut batch = Batch::new();
        let counters = transaction.into_copy(&mut batch)?;
        Ok((batch, counters, count))
    }
}

/// Removes the item that has an ordinal in the target under another id: it was given another one since. Its rows by the ordinal would
/// go with it later, when they are of the item under its new id.
fn remove_former(transaction: &mut Transaction<'_>, item_key: &[u8], ordinal: u64) -> Plan<()> {
    let Some(former) = transaction.get(&keys::ordinal_key(transaction.input.origin.uid, ordinal))? else {
        return Ok(());
    };
    if former == item_key {
        return Ok(());
    }
    let (logical, id) = keys::parse_item_key(&former).ok_or_else(crate::malformed_key)?;
    let key = keys::with_header(transaction.input.origin.uid, ITEMS, &former).into();
    let name = ItemName { logical: &logical, id, key };
    match transaction.item(&name.key)?.filter(|item| item.ordinal() == ordinal) {
        Some(item) => transaction.delete(&name, &item, ChangeKind::Delete),
        None => Ok(()),
    }
}

/// Copies the source's version of an item to the target.
fn transfer(transaction: &mut Transaction<'_>, item_key: &[u8], item: Option<&StoredItem>) -> Plan<()> {
    let (logical, id) = keys::parse_item_key(item_key).ok_or_else(crate::malformed_key)?;
    let key = keys::with_header(transaction.input.origin.uid, ITEMS, item_key).into();
    let name = ItemName { logical: &logical, id, key };
    let there = transaction.item(&name.key)?;
    match (there, item) {
        (Some(there), Some(item)) if there.lsn() == item.lsn() => Ok(()),
        (there, Some(item)) => {
            if there.as_ref().is_none_or(|there| there.ordinal() != item.ordinal()) {
                remove_former(transaction, item_key, item.ordinal())?;
            }
            transaction.put_copy(&name, item, there.as_ref())
        }
        (Some(there), None) => transaction.delete(&name, &there, ChangeKind::Delete),
        (None, None) => Ok(()),
    }
}
