//! Interactive transactions: scripts read and write a logical partition step by step, and no other
//! client writes to it meanwhile.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the sequencer for writers whose transaction is one commit |
//! | `locks.rs` | the gates of logical partitions |
//! | `transaction.rs` | one transaction of a script, step by step |
//! | `own_items.rs` | its writes, laid over the engine's state |
//! | `snapshot_transaction.rs`, `snapshot_commit.rs` | transactions that read a snapshot and write to any partitions of a shard; their commit |
//! | `claims.rs` | the rows that those have written |
//!
//! A script's transaction holds only the gate of its logical partition, so that the items that it
//! reads do not change. Readers continue, writers of other logical partitions continue, a relocation goes
//! on.
//!
//! A snapshot transaction may last, so it holds no gate: it claims the items that it writes, and
//! other writers of these items wait for its end. Its commit compares the rows that it rests on
//! once more under the sequencers, whatever was written in between.

mod claims;
mod locks;
mod own_items;
mod snapshot_commit;
#[cfg(test)]
mod snapshot_tests;
mod snapshot_transaction;
#[cfg(test)]
mod tests;
mod transaction;

use std::time::Duration;

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::{RowsPermit, SMALL_COMMIT_ROWS};

pub(crate) use claims::Claims;
pub(crate) use locks::Gates;
use locks::Place;
pub(crate) use own_items::MergedScan;
pub use own_items::OwnItems;
pub use snapshot_commit::Uncommitted;
pub use snapshot_transaction::{SnapshotTransaction, TRANSACTION_TOO_LARGE, TransactionView};
pub use transaction::LogicalTransaction;

use crate::keys;
use crate::partition::Partition;
use crate::sequencer::SequencerGuard;
use shardlake_routing::LogicalKey;

/// The sequencer, while no transaction holds the logical partition to be written to.
pub(crate) struct WriteTurn {
    pub sequencer: SequencerGuard,
    /// Where the commit is expected to be large.
    pub large: Option<RowsPermit>,
    /// Where the writer had to wait at the gate.
    pub place: Option<Place>,
}

impl Partition {
    /// The sequencer for a write to a logical partition of about so many rows, once no transaction holds that.
    pub(crate) async fn turn_to_write(
        &self,
        logical: &LogicalKey,
        patience: Duration,
        rows: usize,
    ) -> Result<WriteTurn> {
        self.shard().check_writable().map_err(crate::storage_error)?;
        let large = self.turn_within(rows, patience).await?;
        let sequencer = self.sequencer.hold().await;
        let Some(mut place) = self.gates.place_if_any(|| keys::logical_prefix(self.uid, logical)) else {
            return Ok(WriteTurn { sequencer, large, place: None });
        };
        drop(sequencer);
        // Large commits of others continue while a script keeps this one waiting.
        drop(large);
        place.pass(patience).await?;
        let large = self.turn_within(rows, patience).await?;
        Ok(WriteTurn { sequencer: self.sequencer.hold().await, large, place: Some(place) })
    }

    async fn turn_within(&self, rows: usize, patience: Duration) -> Result<Option<RowsPermit>> {
        if rows <= SMALL_COMMIT_ROWS {
            return Ok(None);
        }
        let turn = async { self.shard().turn_for(rows).await.map_err(crate::storage_error) };
        tokio::time::timeout(patience, turn).await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Timeout,
                "other large writes went on for as long as the request could wait: nothing was done, retry",
            ))
        })
    }
}
