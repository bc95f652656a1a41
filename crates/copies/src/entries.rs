//! Indexes in memory, in line with the catalog.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_catalog::{Checkpoint, Definitions};
use shardlake_model::ContainerRid;
use tokio::sync::Notify;

use crate::status::Status;
use crate::verification::{IndexVerification, Verification};

/// An index in memory, through all changes of its record.
#[derive(Debug)]
pub(crate) struct IndexEntry {
    pub number: u32,
    /// The container that it is.
    pub index: ContainerRid,
    pub source: ContainerRid,
    pub status: Status,
    /// Wakes the task: the record has changed or ended, or a read waits for the next round.
    pub wake: Notify,
    /// Wakes reads that wait: the position or the record has changed.
    pub moved: Notify,
    /// Its last comparison with the source.
    pub verification: Verification,
}

#[derive(Debug, Default)]
pub(crate) struct Entries(Mutex<InForce>);

#[derive(Debug, Default)]
struct InForce {
    /// Version of the catalog that they are in line with.
    version: u64,
    entries: BTreeMap<u32, Arc<IndexEntry>>,
}

impl Entries {
    /// The entry of an index, as far as it is in line with the catalog.
    pub fn of(&self, index: ContainerRid) -> Option<Arc<IndexEntry>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entries.values().find(|entry| entry.index == index).cloned()
    }

    /// The indexes of a catalog in the order of their numbers, and the new ones among them. Tasks are
    /// woken, since their records may have changed.
    pub fn in_line_with(&self, definitions: &Definitions) -> (Vec<Arc<IndexEntry>>, Vec<Arc<IndexEntry>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version = definitions.numbers.version;
        if version <= known.version && version > 0 {
            // Another caller has already applied this catalog, or a newer one.
            return (known.entries.values().cloned().collect(), Vec::new());
        }
        let mut old = std::mem::take(&mut known.entries);
        let mut new = Vec::new();
        for (index, record) in definitions.secondary_indexes.iter() {
            let entry = old.remove(&record.number).unwrap_or_else(|| {
                let stored = definitions.checkpoints.get(&record.number);
                let checkpoint = stored.map(|stored| Checkpoint::clone(stored)).unwrap_or_default();
                let entry = Arc::new(IndexEntry {
                    number: record.number,
                    index: *index,
                    source: record.source,
                    status: Status::new(record, checkpoint),
                    wake: Notify::new(),
                    moved: Notify::new(),
                    verification: Verification::default(),
                });
                new.push(entry.clone());
                entry
            });
            entry.wake.notify_one();
            entry.moved.notify_waiters();
            known.entries.insert(record.number, entry);
        }
        for ended in old.values() {
            ended.wake.notify_one();
            ended.moved.notify_waiters();
        }
        known.version = version;
        (known.entries.values().cloned().collect(), new)
    }
}

impl IndexEntry {
    pub(crate) fn change_verification(&self, change: impl FnOnce(&mut IndexVerification)) {
        let mut slot = self.verification.lock().expect("nothing panics under this lock");
        if let Some(report) = slot.as_mut() {
            change(report);
        }
    }
}
