//! Rows of a copy of a container, sent to the partition that stores them.

use shardlake_model::{RequestContext, Result};
use shardlake_partition::{CopyBatch, CopyReply, UniqueReply};

use crate::admission::{Cost, OperationKind, Touched};
use crate::command::Command;
use crate::hosted::Hosted;
use crate::travel::travels_as_itself;

travels_as_itself!(ApplyCopies, CopyReply, ApplyUnique, UniqueReply);

/// Writes and ends rows of one partition; of any number of logical partitions.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct ApplyCopies {
    pub batch: CopyBatch,
    /// It costs the container no request units, and waits for none.
    pub is_free: bool,
}

/// As [`ApplyCopies`], for a unique index.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct ApplyUnique {
    pub batch: CopyBatch,
    /// As [`ApplyCopies::is_free`].
    pub is_free: bool,
}

impl Command for ApplyCopies {
    type Reply = CopyReply;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<CopyReply> {
        let command = at.reading(ctx);
        let apply = at.partition().apply_copies(at.schema(), &command, &self.batch);
        if self.is_free {
            return apply.await;
        }
        let permit = at.admit(ctx, OperationKind::Write, Touched::Span(&at.partition().epk_range))?;
        let outcome = apply.await;
        permit.settle_outcome(&outcome, |reply| {
            let done = (reply.written + reply.deleted + reply.unchanged) as usize;
            debug_assert!(done <= self.batch.rows.len(), "each row has one outcome");
            cost(reply, &self.batch)
        });
        outcome
    }
}

impl Command for ApplyUnique {
    type Reply = UniqueReply;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<UniqueReply> {
        let command = at.reading(ctx);
        let apply = at.partition().apply_unique(at.schema(), &command, &self.batch);
        if self.is_free {
            return apply.await;
        }
        let permit = at.admit(ctx, OperationKind::Write, Touched::Span(&at.partition().epk_range))?;
        let outcome = apply.await;
        permit.settle_outcome(&outcome, |reply| cost(&reply.reply, &self.batch));
        outcome
    }
}

fn cost(reply: &CopyReply, batch: &CopyBatch) -> Cost {
    Cost { charge_centi: reply.meta.charge_centi, size_bytes: batch.size_bytes() as u64, creates: false }
}
