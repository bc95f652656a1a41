//! Walks everything a partition stores and reports every disagreement: items against their keys and
//! checksums, the change log against itself and against the items, unique keys against both, the
//! index and the queue of ends against the items, and the counters and the sizes of logical
//! partitions against the walked items.
//!
//! Runs offline over one snapshot. It holds one map entry per item that the log names, so its memory grows with the
//! number of items, not with their size.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use shardlake_model::Result;
use shardlake_routing::effective_partition_key;
use shardlake_stdx::HybridTime;
use shardlake_storage::{ScanOptions, Shard, Snapshot};

use crate::feed::created;
use crate::index::IndexVerifier;
use crate::invariants;
use crate::item::{StoredItem, rendered_size};
use crate::key_list::KeyList;
use crate::keys::{self, HEADER};
use crate::log::entries::logged;
use crate::log::entry::{ChangeKind, Counters, LogEntry};
use crate::log::invariants::{LogProblem, Page};
use crate::log::marks::LogMarks;
use crate::origin::PartitionIdentity;
use crate::partition_key::extract_partition_key;
use crate::shape::ContainerSchema;
use crate::sizes::SizeVerifier;
use crate::verify_expiry::ExpiryVerifier;
use crate::verify_versions::VersionsVerifier;

/// Problems listed one by one; beyond this many they are only counted.
const PROBLEMS_LISTED_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct PartitionReport {
    pub items: u64,
    pub log_entries: u64,
    pub unique_keys: u64,
    pub postings: u64,
    pub last_lsn: u64,
    pub problem_count: u64,
    pub problems: Vec<String>,
}

impl PartitionReport {
    fn problem(&mut self, text: impl FnOnce() -> String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(text());
        }
    }
}

/// The last change of an item in the log.
struct LastChange {
    lsn: u64,
    /// Time of the commit; `None` in the part of a log that was made of several, whose times are joined.
    time: Option<HybridTime>,
    alive: bool,
    seen: bool,
}

impl LastChange {
    /// Whether a version of a time may come from the commit. Records of version 2 have whole seconds.
    fn is_of_time(&self, version: HybridTime) -> bool {
        let is = |time: HybridTime| version == time || version == HybridTime::from_seconds(time.seconds());
        self.time.is_none_or(is)
    }
}

struct Verifier<'a> {
    identity: &'a PartitionIdentity,
    shape: &'a Arc<ContainerSchema>,
    snapshot: Snapshot,
    report: PartitionReport,
    changes: FxHashMap<Vec<u8>, LastChange>,
    counted: Counters,
    indexes: Vec<IndexVerifier>,
    sizes: SizeVerifier,
    marks: LogMarks,
    versions: VersionsVerifier,
    expiry: ExpiryVerifier,
}

/// Reports on one partition; `Err` only when the shard cannot be read at all. `on_items` receives the number of items of each chunk.
pub async fn verify_partition(
    shard: &Shard,
    identity: &PartitionIdentity,
    shape: &Arc<ContainerSchema>,
    on_items: &(dyn Fn(u64) + Sync),
) -> Result<PartitionReport> {
    let snapshot = shard.snapshot();
    let mut indexes = Vec::new();
    for (layout, is_building) in [(&shape.serving, false), (&shape.building, true)] {
        if let Some(layout) = layout {
            indexes.push(IndexVerifier::new(&snapshot, identity.uid, layout, is_building).await?);
        }
    }
    let sizes = SizeVerifier::new(&snapshot, identity.uid).await?;
    let marks = snapshot.get(&keys::log_marks_key(identity.uid)).await.map_err(crate::storage_error)?;
    let marks = marks.as_deref().map_or(Ok(LogMarks::default()), LogMarks::decode)?;
    let mut verifier = Verifier {
        identity,
        shape,
        versions: VersionsVerifier::new(&snapshot, identity.uid, marks.keeps_versions()).await?,
        marks,
        snapshot,
        sizes,
        indexes,
        expiry: ExpiryVerifier::default(),
        report: PartitionReport::default(),
        changes: FxHashMap::default(),
        counted: Counters { next_ordinal: 0, ..Counters::default() },
    };
    let last = verifier.walk_log().await?;
    verifier.walk_items(&last, on_items).await?;
    verifier.walk_versions().await?;
    verifier.walk_unique_keys().await?;
    verifier.walk_ordinals().await?;
    let created = created::verify(&verifier.snapshot, identity.uid, verifier.report.items).await?;
    created.into_iter().for_each(|problem| verifier.report.problem(|| problem));
    verifier.walk_expiry().await?;
    verifier.check_indexes().await?;
    verifier.compare_counters(&last);
    verifier.check_state(&last);
    let Verifier { sizes, mut report, .. } = verifier;
    sizes.finish().await?.into_iter().for_each(|problem| report.problem(|| problem));
    Ok(report)
}

impl Verifier<'_> {
    async fn walk_log(&mut self) -> Result<Counters> {
        let mut last = Counters::default();
        let marks = self.marks.clone();
        let mut page = Page::behind(&marks, 0);
        let (start, end) = keys::space_range(self.identity.uid, keys::CHANGE_LOG);
        let mut scan = self.snapshot.scan(start..end, ScanOptions::SWEEP);
        while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, value) in chunk {
                let (lsn, entry) = (keys::log_lsn(&key)?, logged(&key, &value).map(|(_, entry)| entry));
                let before = std::mem::replace(&mut self.report.last_lsn, lsn);
                self.report.log_entries += 1;
                for problem in page.next(lsn, entry.as_ref().ok()) {
                    self.report.problem(|| words_of(problem, before, lsn));
                }
                match entry {
                    Ok(entry) => {
                        last = entry.counters;
                        self.note_changes(lsn, entry);
                    }
                    Err(error) => self.report.problem(|| format!("log entry {lsn}: {error}")),
                }
            }
        }
        if self.report.last_lsn < self.marks.holes_to {
            let (last, holes_to) = (self.report.last_lsn, self.marks.holes_to);
            self.report.problem(|| format!("the change log ends at LSN {last}, but has been at {holes_to}"));
        }
        Ok(last)
    }

    fn note_changes(&mut self, lsn: u64, entry: LogEntry) {
        let time = Some(entry.time).filter(|_| lsn > self.marks.joined_to);
        for operation in entry.operations {
            let alive = matches!(operation.kind, ChangeKind::Create | ChangeKind::Replace);
            let before = self
                .changes
                .get(&operation.key)
                .map_or(0, |change| if change.alive { change.lsn } else { 0 });
            let past = self.marks.past_of(&operation.key, Some(&operation.key));
            self.versions.expect(&operation, lsn, past);
            let previous = operation.previous_lsn;
            // An operation between them may have been compacted.
            let is_gone = match previous {
                0 => past.compacted_to > before,
                previous => previous > before && previous <= past.compacted_to,
            };
            if previous != before && !is_gone {
                self.report.problem(|| {
                    format!("log entry {lsn} follows version {previous} of an item whose last is {before}")
                });
            }
            self.changes.insert(operation.key, LastChange { lsn, time, alive, seen: false });
        }
    }

    async fn walk_items(&mut self, last: &Counters, on_items: &(dyn Fn(u64) + Sync)) -> Result<()> {
        let mut ordinals = FxHashSet::default();
        let (start, end) = keys::space_range(self.identity.uid, keys::ITEMS);
        let mut scan = self.snapshot.scan(start..end, ScanOptions::SWEEP);
        while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
            on_items(chunk.len() as u64);
            for (key, value) in chunk {
                self.report.items += 1;
                self.counted.items += 1;
                match StoredItem::decode(value, self.shape) {
                    Ok(item) => {
                        self.indexes.iter_mut().for_each(|index| index.note_item(&key, &item));
                        self.expiry.note_item(&item);
                        let size_bytes = item.json_size_bytes() as u64;
                        self.counted.size_bytes += size_bytes;
                        let problems = self.sizes.note_item(&key[HEADER..], size_bytes).await?;
                        problems.into_iter().for_each(|problem| self.report.problem(|| problem));
                        let problems = self.check_item(&key, &item, last);
                        problems.into_iter().for_each(|problem| self.report.problem(|| problem));
                        if !ordinals.insert(item.envelope().ordinal) {
                            let ordinal = item.envelope().ordinal;
                            self.report.problem(|| format!("two items have the ordinal {ordinal}"));
                        }
                    }
                    Err(error) => self.report.problem(|| format!("item {}: {error}", printable(&key))),
                }
            }
        }
        let missing: Vec<u64> = self
            .changes
            .iter()
            .filter(|(key, change)| {
                let is_gone = || self.marks.past_of(key, Some(key)).compacted_to > change.lsn;
                change.alive && !change.seen && !is_gone()
            })
            .map(|(_, change)| change.lsn)
            .collect();
        for lsn in missing {
            self.report.problem(|| format!("an item that the change log wrote at LSN {lsn} is missing"));
        }
        Ok(())
    }

    fn check_item(&mut self, key: &Bytes, item: &StoredItem, last: &Counters) -> Vec<String> {
        let mut problems = Vec::new();
        let name = printable(key);
        let Some((logical, id)) = keys::parse_item_key(&key[HEADER..]) else {
            return vec![format!("item {name}: its key is malformed")];
        };
        let mut expect = |holds: bool, what: &str| {
            if !holds {
                problems.push(format!("item {name}: {what}"));
            }
        };
        let body = item.body();
        let in_body = extract_partition_key(body, &self.shape.key_paths);
        expect(in_body.same(&logical.partition_key), "its partition key differs from its body's");
        let epk = effective_partition_key(&self.shape.key_definition, &in_body);
        expect(epk == logical.epk, "its key does not carry the hash of its partition key");
        expect(self.identity.epk_range.contains(&logical.epk), "it lies outside the partition's range");
        let body_id = shardlake_document::identity_of(body);
        expect(body_id.is_some_and(|body_id| body_id == id), "its id differs from its body's");
        let envelope = item.envelope();
        let size =
            rendered_size(shardlake_document::json_size(body) - 2, self.shape, envelope.timestamp_seconds());
        expect(size == item.json_size_bytes(), "its recorded size is wrong");
        let (prefix, number) = (envelope.ordinal >> 40, envelope.ordinal & ((1 << 40) - 1));
        let inherits = |inherited: &u32| u64::from(*inherited) == prefix;
        if prefix == u64::from(self.identity.rid_prefix) {
            expect(number < last.next_ordinal, "its ordinal was never handed out");
        } else {
            expect(
                self.identity.inherited_prefixes.iter().any(inherits),
                "its ordinal has another partition's prefix",
            );
        }
        match self.changes.get_mut(&key[HEADER..]) {
            Some(change) if change.alive && change.lsn == envelope.lsn => {
                change.seen = true;
                if !change.is_of_time(envelope.time) {
                    problems.push(format!("item {name}: its time differs from that of its commit"));
                }
            }
            Some(change) => {
                change.seen = true;
                let (lsn, state) = (change.lsn, if change.alive { "wrote" } else { "deleted" });
                problems.push(format!(
                    "item {name}: it has LSN {} but the log {state} it at {lsn}",
                    envelope.lsn
                ));
            }
            None => problems.push(format!("item {name}: the change log does not know it")),
        }
        problems
    }

    async fn walk_versions(&mut self) -> Result<()> {
        let versions = std::mem::take(&mut self.versions);
        let problems = versions.finish(&self.snapshot, self.identity.uid, self.shape).await?;
        problems.into_iter().for_each(|problem| self.report.problem(|| problem));
        Ok(())
    }

    async fn walk_unique_keys(&mut self) -> Result<()> {
        let (start, end) = keys::space_range(self.identity.uid, keys::UNIQUE_KEYS);
        let mut scan = self.snapshot.scan(start..end, ScanOptions::SWEEP);
        while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
            let (mut item_keys, nobody) =
                (KeyList::default(), keys::header(self.identity.uid, keys::ITEMS, 0));
            for (key, holder) in &chunk {
                item_keys.push(&[self.holder_key(key, holder).as_deref().unwrap_or(&nobody)]);
            }
            let items = self.snapshot.get_many(item_keys.finish()).await.map_err(crate::storage_error)?;
            for ((key, _), item) in chunk.into_iter().zip(items) {
                self.report.unique_keys += 1;
                // In a collection, rows outlive unique keys that are dropped.
                if !self.shape.is_collection && !self.is_held(&key, item) {
                    self.report.problem(|| format!("unique key {}: no item has this value", printable(&key)));
                }
            }
        }
        // Each value belongs to one item, so the numbers show whether an item lacks one. An item
        // whose time has run out may have lost its value to another.
        let (found, expected) =
            (self.report.unique_keys, self.report.items * self.shape.unique_keys.len() as u64);
        let is_told = self.shape.default_ttl.is_none() && !self.shape.is_collection;
        if is_told && found < expected {
            self.report
                .problem(|| format!("there are {found} unique values where the items have {expected}"));
        }
        Ok(())
    }

    async fn walk_ordinals(&mut self) -> Result<()> {
        let mut entries = 0;
        let (start, end) = keys::space_range(self.identity.uid, keys::ORDINALS);
        let mut scan = self.snapshot.scan(start..end, ScanOptions::SWEEP);
        while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
            entries += chunk.len() as u64;
            let (mut item_keys, header) =
                (KeyList::default(), keys::header(self.identity.uid, keys::ITEMS, 0));
            chunk.iter().for_each(|(_, item_key)| item_keys.push(&[&header, item_key]));
            let item_keys = item_keys.finish();
            let stored = self.snapshot.get_many(item_keys.clone()).await.map_err(crate::storage_error)?;
            for (((key, _), full), stored) in chunk.iter().zip(item_keys).zip(stored) {
                let item = stored.and_then(|bytes| StoredItem::decode(bytes, self.shape).ok());
                let ordinal = item.map(|item| keys::ordinal_key(self.identity.uid, item.envelope().ordinal));
                if ordinal.as_deref() != Some(&key[..]) {
                    self.report.problem(|| {
                        format!("the ordinal entry of item {} does not match it", printable(&full))
                    });
                }
            }
        }
        if entries != self.report.items {
            let items = self.report.items;
            self.report.problem(|| format!("there are {entries} ordinal entries for {items} items"));
        }
        Ok(())
    }

    async fn walk_expiry(&mut self) -> Result<()> {
        let expiry = std::mem::take(&mut self.expiry);
        let problems = expiry.finish(&self.snapshot, self.identity.uid, self.shape).await?;
        problems.into_iter().for_each(|problem| self.report.problem(|| problem));
        Ok(())
    }

    async fn check_indexes(&mut self) -> Result<()> {
        for index in std::mem::take(&mut self.indexes) {
            let findings = index.finish(&self.snapshot, self.shape).await?;
            self.report.postings += findings.postings;
            findings.problems.into_iter().for_each(|problem| self.report.problem(|| problem));
        }
        Ok(())
    }

    /// The item in the row of a unique value; `None` where the row is malformed.
    fn holder_key(&self, key: &[u8], holder: &[u8]) -> Option<Vec<u8>> {
        let (_, logical) = keys::parse_unique_key(&key[HEADER..])?;
        Some(keys::item_key(self.identity.uid, &logical, std::str::from_utf8(holder).ok()?))
    }

    /// Whether an item has the unique value of a row.
    fn is_held(&self, key: &[u8], item: Option<Bytes>) -> bool {
        let Some((_, logical)) = keys::parse_unique_key(&key[HEADER..]) else { return false };
        let Some(Ok(item)) = item.map(|bytes| StoredItem::decode(bytes, self.shape)) else { return false };
        let own = self.shape.unique_keys_of(self.identity.uid, &logical, item.body());
        own.iter().any(|(_, own)| own == key)
    }

    /// The check of a partition that opens, where nothing more precise was found.
    fn check_state(&mut self, last: &Counters) {
        let found = invariants::opened(self.report.last_lsn, last, &self.marks);
        if let Some(reason) = found.err().filter(|_| self.report.problem_count == 0) {
            self.report.problem(|| format!("the last log entry contradicts the rest: {reason}"));
        }
    }

    fn compare_counters(&mut self, last: &Counters) {
        let (counted, recorded) =
            ((self.counted.items, self.counted.size_bytes), (last.items, last.size_bytes));
        if counted != recorded {
            self.report.problem(|| {
                format!(
                    "the log counts {} items of {} bytes, the partition holds {} of {}",
                    recorded.0, recorded.1, counted.0, counted.1
                )
            });
        }
    }
}

fn words_of(problem: LogProblem, before: u64, lsn: u64) -> String {
    match problem {
        LogProblem::Jump | LogProblem::NotAbove => {
            format!("the change log jumps from LSN {before} to {lsn}")
        }
        LogProblem::TimeBack => format!("the time goes back at log entry {lsn}"),
        LogProblem::NotEnded { previous_lsn } => {
            format!("log entry {lsn} ends version {previous_lsn}, which is not older")
        }
    }
}

fn printable(key: &[u8]) -> String {
    match keys::parse_item_key(key.get(HEADER..).unwrap_or_default()) {
        Some((_, id)) => format!("'{id}'"),
        None => format!("{key:02x?}"),
    }
}
