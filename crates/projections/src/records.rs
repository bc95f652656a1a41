//! Projections in memory, and storing how far they have come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_catalog::{Checkpoint, Definitions, ProjectionRecord};
use shardlake_model::Result;

use crate::Projections;
use crate::rule::{Compiled, compile};
use crate::status::Status;

/// A projection in memory, through all its pauses.
#[derive(Debug)]
pub(crate) struct ProjectionEntry {
    pub record: Arc<ProjectionRecord>,
    pub rule: Arc<Compiled>,
    pub status: Arc<Status>,
}

impl ProjectionEntry {
    pub fn new(record: Arc<ProjectionRecord>, checkpoint: Checkpoint) -> Result<ProjectionEntry> {
        let rule = Arc::new(compile(&record.rule)?);
        Ok(ProjectionEntry { record, rule, status: Arc::new(Status::new(checkpoint)) })
    }

    /// This projection paused, or resumed.
    pub fn under(&self, record: Arc<ProjectionRecord>) -> ProjectionEntry {
        assert_eq!(record.rule, self.record.rule, "another rule has another number");
        ProjectionEntry { record, rule: self.rule.clone(), status: self.status.clone() }
    }

    pub fn id(&self) -> &str {
        &self.record.rule.id
    }
}

/// Running state of the catalog's projections, by id. It is brought in line before each use, and
/// whenever the catalog changes.
#[derive(Debug, Default)]
pub(crate) struct ProjectionEntries(Mutex<InForce>);

#[derive(Debug, Default)]
struct InForce {
    /// Version of the catalog that they are in line with.
    version: u64,
    entries: Entries,
}

impl ProjectionEntries {
    /// The projections of a catalog, and the new ones among them. A projection whose record has
    /// changed or ended is woken.
    pub fn in_line_with(&self, definitions: &Definitions) -> Result<(Entries, Vec<Arc<ProjectionEntry>>)> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version = definitions.numbers.version;
        if version <= known.version && version > 0 {
            // Another caller has already applied this catalog, or a newer one.
            return Ok((known.entries.clone(), Vec::new()));
        }
        let mut old: BTreeMap<u32, Arc<ProjectionEntry>> =
            known.entries.values().map(|entry| (entry.record.number, entry.clone())).collect();
        let (mut entries, mut new) = (Entries::new(), Vec::new());
        for (number, record) in definitions.projections.iter() {
            let entry = match old.remove(number) {
                Some(entry) if Arc::ptr_eq(&entry.record, record) => entry,
                Some(entry) => {
                    entry.status.wake.notify_one();
                    Arc::new(entry.under(record.clone()))
                }
                None => {
                    let checkpoint = definitions.checkpoints.get(number);
                    let checkpoint = checkpoint.map(|stored| (**stored).clone()).unwrap_or_default();
                    let entry = Arc::new(ProjectionEntry::new(record.clone(), checkpoint)?);
                    new.push(entry.clone());
                    entry
                }
            };
            entries.insert(entry.id().to_owned(), entry);
        }
        old.values().for_each(|gone| gone.status.wake.notify_one());
        *known = InForce { version, entries: entries.clone() };
        Ok((entries, new))
    }
}

/// By id.
pub(crate) type Entries = BTreeMap<String, Arc<ProjectionEntry>>;

/// Stores the progress of a projection, if it still exists. Everything that it has read and written is durable before
/// the record is, on all shards involved: a crash can only lead to repeated checks.
pub(crate) async fn save(projections: &Projections, number: u32, checkpoint: &Checkpoint) -> Result<()> {
    settle(projections).await?;
    let checkpoint = checkpoint.clone();
    let plan = move |_: &_, draft: &mut Definitions| {
        if draft.projections.contains(&number) {
            draft.checkpoints.put(number, checkpoint);
        }
        Ok(())
    };
    projections.router().change(plan).await.map(drop)
}

/// Waits until everything applied so far is durable, on every shard and in every mode of durability. A position must
/// not outlive the commits that it counts, since their LSNs would be given out again.
pub(crate) async fn settle(projections: &Projections) -> Result<()> {
    for shard in projections.0.router.stores().iter() {
        shard.wait_durable(shard.applied()).await.map_err(shardlake_partition::storage_error)?;
    }
    Ok(())
}
