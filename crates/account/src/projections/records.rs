//! What the catalog keeps of a projection: its rule, and how far it has come.
//!
//! They are two records, because the second is written again and again. Both go with the database of the source. How far a
//! projection has come never runs ahead of what it has written: see [`save`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_model::{ContainerRid, Error, ErrorKind, Result};
use shardlake_routing::EpkRange;

use super::rule::{Compiled, ProjectionRule};
use super::status::Status;
use crate::Account;
use crate::catalog::{Catalog, CatalogBatch};

/// A rule as the catalog stores it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProjectionRecord {
    /// Names the projection in keys. A rule that takes the place of another has a number of its own.
    pub number: u32,
    pub rule: ProjectionRule,
    /// The containers as they were: others of the same names have other changes.
    pub source: ContainerRid,
    pub target: ContainerRid,
    pub is_paused: bool,
    /// Seconds since the Unix epoch.
    pub created: u64,
}

/// How far a projection has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub source: Vec<PlaceRecord>,
    /// Empty where the target is not watched.
    #[serde(default)]
    pub target: Vec<PlaceRecord>,
    #[serde(default)]
    pub counts: Counts,
}

/// A part of the hash space, in hexadecimal, and the last LSN whose copies are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlaceRecord {
    pub min: String,
    pub max: String,
    pub after: u64,
}

impl PlaceRecord {
    pub fn new(span: &EpkRange, after: u64) -> PlaceRecord {
        let (min, max) = span.to_hex();
        PlaceRecord { min, max, after }
    }

    pub fn span(&self) -> Result<EpkRange> {
        EpkRange::from_hex(&self.min, &self.max)
            .map_err(|error| Error::new(ErrorKind::Corrupt, format!("a stored place is malformed: {error}")))
    }
}

/// What a projection has done since it was created. A crash may count again what it makes happen again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Changed items looked at.
    pub changes: u64,
    /// Target items written.
    pub applied: u64,
    /// Target items that were right already.
    pub unchanged: u64,
    pub dead_letters: u64,
}

/// A projection in memory, through all its pauses.
#[derive(Debug)]
pub(crate) struct ProjectionEntry {
    pub record: ProjectionRecord,
    pub rule: Arc<Compiled>,
    pub status: Arc<Status>,
}

impl ProjectionEntry {
    pub fn new(record: ProjectionRecord, checkpoint: Checkpoint) -> Result<ProjectionEntry> {
        let rule = Arc::new(record.rule.compile()?);
        Ok(ProjectionEntry { record, rule, status: Arc::new(Status::new(checkpoint)) })
    }

    pub fn id(&self) -> &str {
        &self.record.rule.id
    }
}

/// The projections of a catalog that is read. A checkpoint without its rule is from a deletion that was interrupted, and
/// nobody's.
pub(crate) fn restored(
    records: Vec<ProjectionRecord>,
    mut checkpoints: BTreeMap<u32, Checkpoint>,
) -> Result<BTreeMap<String, Arc<ProjectionEntry>>> {
    let entry = |record: ProjectionRecord| {
        let checkpoint = checkpoints.remove(&record.number).unwrap_or_default();
        let entry = ProjectionEntry::new(record, checkpoint)?;
        Ok((entry.id().to_owned(), Arc::new(entry)))
    };
    records.into_iter().map(entry).collect()
}

/// Takes away what belongs to a database that is being deleted.
pub(crate) fn forget_of_database(
    catalog: &mut Catalog,
    batch: &mut CatalogBatch,
    database: shardlake_model::DatabaseRid,
) {
    catalog.projections.retain(|_, entry| {
        let goes = entry.record.source.database == database;
        if goes {
            batch.delete_projection(entry.record.number);
            entry.status.wake.notify_one();
        }
        !goes
    });
}

/// Stores how far a projection has come, if it is still there. Everything that it has read and written is durable before
/// the record is, on whichever shards it lies: a crash can only lead to looking again.
pub(crate) async fn save(account: &Account, number: u32, checkpoint: &Checkpoint) -> Result<()> {
    settle(account).await?;
    let _writer = account.0.catalog_writer.lock().await;
    let catalog = account.0.catalog.load();
    if !catalog.projections.values().any(|entry| entry.record.number == number) {
        return Ok(());
    }
    let mut batch = CatalogBatch::new();
    batch.put_checkpoint(number, checkpoint);
    batch.commit(account.0.shards.first()).await
}

/// Waits until everything applied so far is durable, on every shard and in every mode of durability: a position must not
/// outlive the commits that it counts, whose LSNs would be given out again.
pub(crate) async fn settle(account: &Account) -> Result<()> {
    for shard in account.0.shards.iter() {
        shard.wait_durable(shard.applied()).await.map_err(shardlake_partition::storage_error)?;
    }
    Ok(())
}
