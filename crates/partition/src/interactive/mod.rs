//! Interactive transactions: scripts read and write a logical partition step by step, and no other
//! client writes to it meanwhile.
//!
//! | file | content |
//! |---|---|
//! | `transaction.rs` | one transaction of a script, step by step |
//! | `snapshot_transaction.rs`, `snapshot_commit.rs` | transactions that read a snapshot and write to any partitions of a shard; their commit |
//!
//! The gates and claims of open transactions, and the items that these have written, are in
//! `open_transactions/`.
//!
//! A script's transaction holds only the gate of its logical partition, so that the items that it
//! reads do not change. Readers continue, writers of other logical partitions continue, a relocation goes
//! on.
//!
//! A snapshot transaction may last, so it holds no gate: it claims the items that it writes, and
//! other writers of these items wait for its end. Its commit compares the rows that it rests on
//! once more under the sequencers, whatever was written in between.

mod snapshot_commit;
mod snapshot_transaction;
mod transaction;

use std::sync::Arc;

use shardlake_model::Result;
use shardlake_routing::LogicalKey;
use shardlake_stdx::Clock;

pub use snapshot_commit::Uncommitted;
pub use snapshot_transaction::{SnapshotTransaction, TRANSACTION_TOO_LARGE, TransactionView};
pub use transaction::LogicalTransaction;

use crate::operation::CommandContext;
use crate::partition::Partition;
use crate::shape::ContainerSchema;

impl Partition {
    /// Begins a transaction on a logical partition when all others there have ended. Its steps go
    /// by the time of the beginning, for expiry and for the `_ts` in their replies. Stored items
    /// have the time of the commit.
    pub async fn begin(
        self: &Arc<Self>,
        shape: &Arc<ContainerSchema>,
        command: CommandContext,
        logical: &LogicalKey,
        clock: &Clock,
    ) -> Result<LogicalTransaction> {
        LogicalTransaction::begin(self, shape, command, logical, clock).await
    }

    /// Begins a transaction on everything that is acknowledged now in the partition's shard.
    pub fn begin_snapshot(&self, command: CommandContext) -> Result<SnapshotTransaction> {
        self.check_open()?;
        Ok(SnapshotTransaction::begin(self.core().shard(), command))
    }
}

#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod tests;
