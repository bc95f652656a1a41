//! Commands: requests to the owner of a partition, as data.
//!
//! A command runs where its partition is open. The owner checks the session's position, asks the budget, runs the command,
//! settles its charge and records its heat, in this order.

use shardlake_model::{RequestContext, Result};
use shardlake_partition::{CommandContext, CommitOptions};

use crate::hosted::Hosted;
use crate::travel::Travels;

/// A request to the owner of a partition.
pub trait Command: Travels + Send + Sync + 'static {
    type Reply: Travels + Send;

    /// Runs on the open partition.
    fn run(&self, at: &Hosted, ctx: &RequestContext) -> impl Future<Output = Result<Self::Reply>> + Send;
}

impl Hosted {
    /// The context of a command that writes nothing.
    pub(crate) fn reading(&self, ctx: &RequestContext) -> CommandContext {
        CommandContext {
            now: ctx.now,
            consistency: ctx.consistency,
            etags: Vec::new(),
            patience: ctx.deadline.saturating_sub(self.clock().elapsed()),
            unwanted: Vec::new(),
            commit: CommitOptions::default(),
        }
    }
}
