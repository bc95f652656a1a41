//! Commands: requests to the owner of a partition, as data.
//!
//! A command runs where its partition is open. The owner checks the session's position, asks the budget, runs the command,
//! settles its charge and records its heat, in this order.

use shardlake_model::{RequestContext, Result};
use shardlake_partition::CommandContext;

use crate::hosted::Hosted;
use crate::travel::Travels;

/// A request to the owner of a partition.
pub trait Command: Travels + Send + Sync + 'static {
    type Reply: Travels + Send;

    /// Runs on the open partition.
    fn run(&self, at: &Hosted, ctx: &RequestContext) -> impl Future<Output = Result<Self::Reply>> + Send;

    /// Gives a command that has arrived from another node everything that does not travel: the time limit of its
    /// expressions, and the sequence of their timestamps.
    fn arrive(&mut self, _at: &Hosted, _ctx: &RequestContext) {}
}

impl Hosted {
    /// The context of a command that writes nothing.
    pub(crate) fn reading(&self, ctx: &RequestContext) -> CommandContext {
        CommandContext::of(ctx, self.clock())
    }
}
