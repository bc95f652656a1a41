//! A projection in memory, and storing how far it has come.

use std::sync::Arc;

use shardlake_catalog::{Checkpoint, ProjectionRecord};
use shardlake_model::Result;

use super::rule::{Compiled, compile};
use super::status::Status;
use crate::Account;

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

    /// The same projection paused, or resumed.
    pub fn under(&self, record: Arc<ProjectionRecord>) -> ProjectionEntry {
        assert_eq!(record.rule, self.record.rule, "another rule has another number");
        ProjectionEntry { record, rule: self.rule.clone(), status: self.status.clone() }
    }

    pub fn id(&self) -> &str {
        &self.record.rule.id
    }
}

/// Stores how far a projection has come, if it is still there. Everything that it has read and written is durable before
/// the record is, on whichever shards it lies: a crash can only lead to looking again.
pub(crate) async fn save(account: &Account, number: u32, checkpoint: &Checkpoint) -> Result<()> {
    settle(account).await?;
    let checkpoint = checkpoint.clone();
    let plan = move |_: &_, draft: &mut shardlake_catalog::Definitions| {
        if draft.projections.contains(&number) {
            draft.checkpoints.put(number, checkpoint);
        }
        Ok(())
    };
    account.change(plan).await.map(drop)
}

/// Waits until everything applied so far is durable, on every shard and in every mode of durability: a position must not
/// outlive the commits that it counts, whose LSNs would be given out again.
pub(crate) async fn settle(account: &Account) -> Result<()> {
    for shard in account.0.shards.iter() {
        shard.wait_durable(shard.applied()).await.map_err(shardlake_partition::storage_error)?;
    }
    Ok(())
}
