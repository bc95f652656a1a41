//! Rows of a copy of a container, and writes of functions, sent to the partition that stores them.

use shardlake_model::{RequestContext, Result};
use shardlake_partition::{
    CopyBatch, CopyReply, FunctionBatch, FunctionOutcome, FunctionProgress, FunctionReply, UniqueReply,
};

use crate::admission::{Cost, OperationKind, Touched};
use crate::command::Command;
use crate::hosted::Hosted;
use crate::travel::travels_as_itself;

travels_as_itself!(ApplyCopies, CopyReply, ApplyUnique, UniqueReply);
travels_as_itself!(ApplyFunction, FunctionReply, ReadFunctionProgress, Vec<FunctionProgress>, ForgetFunction);

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

/// Writes of a function to one partition, in one commit with its progress.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct ApplyFunction {
    pub batch: FunctionBatch,
}

impl Command for ApplyFunction {
    type Reply = FunctionReply;

    async fn run(&self, at: &Hosted, ctx: &RequestContext) -> Result<FunctionReply> {
        let permit = at.admit(ctx, OperationKind::Write, Touched::Span(&at.partition().epk_range))?;
        let outcome = at.partition().apply_function(at.schema(), &at.reading(ctx), &self.batch).await;
        permit.settle_outcome(&outcome, |reply| {
            let is_refused = matches!(reply.outcome, FunctionOutcome::Refused(_));
            debug_assert!(!is_refused || reply.meta.charge_centi == 0, "a refused batch has done nothing");
            let size_bytes = self.batch.size_bytes() as u64;
            Cost { charge_centi: reply.meta.charge_centi, size_bytes, creates: false }
        });
        outcome
    }
}

/// How far a function has come in its source, for the keys of a partition that it writes to.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct ReadFunctionProgress {
    pub function: u32,
}

impl Command for ReadFunctionProgress {
    type Reply = Vec<FunctionProgress>;

    async fn run(&self, at: &Hosted, _: &RequestContext) -> Result<Vec<FunctionProgress>> {
        at.partition().function_progress(self.function).await
    }
}

/// Deletes the progress of a function that is no more.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct ForgetFunction {
    pub function: u32,
}

impl Command for ForgetFunction {
    type Reply = ();

    async fn run(&self, at: &Hosted, _: &RequestContext) -> Result<()> {
        at.partition().forget_function(self.function).await
    }
}

fn cost(reply: &CopyReply, batch: &CopyBatch) -> Cost {
    Cost { charge_centi: reply.meta.charge_centi, size_bytes: batch.size_bytes() as u64, creates: false }
}
