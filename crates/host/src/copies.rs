//! Rows of a copy of a container, sent to the partition that stores them.

use shardlake_model::{RequestContext, Result};
use shardlake_partition::{CopyBatch, CopyReply};

use crate::admission::{Cost, OperationKind, Touched};
use crate::command::Command;
use crate::hosted::Hosted;
use crate::travel::travels_as_itself;

travels_as_itself!(ApplyCopies, CopyReply);

/// Writes and ends rows of one partition; of any number of logical partitions.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct ApplyCopies(pub CopyBatch);

impl Command for ApplyCopies {
    type Reply = CopyReply;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<CopyReply> {
        let touched = Touched::Span(&at.partition().epk_range);
        let permit = at.admit(ctx, OperationKind::Write, touched)?;
        let outcome = at.partition().apply_copies(at.schema(), &at.reading(ctx), &self.0).await;
        let size_bytes = self.0.size_bytes() as u64;
        let cost =
            |reply: &CopyReply| Cost { charge_centi: reply.meta.charge_centi, size_bytes, creates: false };
        permit.settle_outcome(&outcome, cost);
        outcome
    }
}
