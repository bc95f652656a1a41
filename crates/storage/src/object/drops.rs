//! Dropping a partition by a change of the manifest: its tables are no longer listed, and the collector removes them later.
//!
//! ```text
//! flush the memtable ─▶ order to drain the segment ─▶ the compactor takes its tables off the manifest ─▶ this owner reads the manifest
//! ```
//! The flush is first because only tables can be drained. It writes rows that would become a table
//! anyway, and moves the place from which the log is replayed behind the last row of the partition:
//! a later owner finds nothing of it in the log.
//!
//! A crash leaves the order or not; repeating the drop completes it. Where a merge of the segment
//! is under way the order waits for its end. Not with an archived log: a restore to a point in time
//! repeats the log, which has no record of a drop.

use std::time::Duration;

use bytes::Bytes;
use slatedb::ErrorKind;
use slatedb::compactor::{CompactionSpec, CompactionStatus, SourceId};

use super::database::Database;
use crate::StorageError;

/// The compactor looks for orders once a second, or each few seconds where there are many shards.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Refusals of an order before it is given up.
const REFUSALS_MAX: u32 = 50;

/// Drops all keys with the prefix of a segment, to which no task writes any more.
pub(super) async fn drop_segment(database: &Database, segment: Bytes) -> Result<(), StorageError> {
    database.flush(slatedb::config::FlushType::MemTable).await?;
    let mut refusals = 0;
    loop {
        while is_busy(database, &segment).await? {
            tokio::time::sleep(LOOK_AGAIN).await;
            // It ends with a database that is closed, or has another owner.
            refresh(database).await?;
        }
        refresh(database).await?;
        let tables = tables(database, &segment);
        if tables.is_empty() {
            return Ok(());
        }
        let order = CompactionSpec::drain_segment(segment.clone(), tables);
        match database.admin().submit_compaction(order).await {
            Ok(_) => {}
            // Orders are numbered by their time, and one of another partition with a later time was stored first.
            Err(error) if error.kind() == ErrorKind::Invalid && refusals < REFUSALS_MAX => {
                refusals += 1;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(error) => return Err(database.failed(&error)),
        }
    }
}

async fn refresh(database: &Database) -> Result<(), StorageError> {
    database.slate().refresh_manifest().await.map_err(|error| database.failed(&error))
}

/// All listed tables of the segment.
fn tables(database: &Database, segment: &[u8]) -> Vec<SourceId> {
    let manifest = database.slate().manifest();
    let Some(found) = manifest.segment(segment) else { return Vec::new() };
    let new = found.l0().iter().map(|table| SourceId::SstView(table.id));
    new.chain(found.compacted().iter().map(|run| SourceId::SortedRun(run.id))).collect()
}

/// Whether an order for the segment, or a merge, is not at its end.
async fn is_busy(database: &Database, segment: &[u8]) -> Result<bool, StorageError> {
    let orders = database.admin().read_compactions(None).await.map_err(|error| database.failed(&error))?;
    let ended = [CompactionStatus::Completed, CompactionStatus::Failed];
    Ok(orders.is_some_and(|orders| {
        let mut orders = orders.recent_compactions();
        orders.any(|order| order.spec().segment() == segment && !ended.contains(&order.status()))
    }))
}
