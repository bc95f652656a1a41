//! Functions in memory, in line with the catalog.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_catalog::{Checkpoint, Definitions};
use shardlake_model::ContainerRid;
use tokio::sync::Notify;

use crate::status::Status;

/// A function in memory, through all changes of its record that keep its number.
#[derive(Debug)]
pub(crate) struct FunctionEntry {
    pub number: u32,
    pub source: ContainerRid,
    pub status: Status,
    /// Wakes the task: the record has changed or ended.
    pub wake: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Entries(Mutex<InForce>);

#[derive(Debug, Default)]
struct InForce {
    /// Version of the catalog that they are in line with.
    version: u64,
    entries: BTreeMap<u32, Arc<FunctionEntry>>,
}

impl Entries {
    /// The functions of a catalog in the order of their numbers, and the new ones among them. Tasks are woken, since
    /// their records may have changed.
    pub fn in_line_with(
        &self,
        definitions: &Definitions,
    ) -> (Vec<Arc<FunctionEntry>>, Vec<Arc<FunctionEntry>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version = definitions.numbers.version;
        if version <= known.version && version > 0 {
            // Another caller has already applied this catalog, or a newer one.
            return (known.entries.values().cloned().collect(), Vec::new());
        }
        let mut old = std::mem::take(&mut known.entries);
        let mut new = Vec::new();
        for (number, record) in definitions.functions.iter() {
            let entry = old.remove(number).unwrap_or_else(|| {
                let stored = definitions.checkpoints.get(number);
                let checkpoint = stored.map(|stored| Checkpoint::clone(stored)).unwrap_or_default();
                let status = Status::new(checkpoint);
                let entry =
                    FunctionEntry { number: *number, source: record.source, status, wake: Notify::new() };
                let entry = Arc::new(entry);
                new.push(entry.clone());
                entry
            });
            entry.wake.notify_one();
            known.entries.insert(*number, entry);
        }
        old.values().for_each(|ended| ended.wake.notify_one());
        known.version = version;
        (known.entries.values().cloned().collect(), new)
    }
}
