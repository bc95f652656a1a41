//! Dropping a partition by a change of the manifest: its tables are no longer listed, and the collector removes them later.
//!
//! ```text
//! flush the memtable ─▶ name the segment to the compactor ─▶ it takes its tables off the manifest ─▶ this owner reads the manifest
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

use super::compactor::tables;
use super::database::Database;
use crate::StorageError;

/// The compactor looks for segments to drop once a second, or each few seconds where there are many shards.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Drops all keys with the prefix of a segment, to which no task writes any more.
pub(super) async fn drop_segment(database: &Database, segment: Bytes) -> Result<(), StorageError> {
    database.flush(slatedb::config::FlushType::MemTable).await?;
    let _named = database.place().drops.name(segment.clone());
    loop {
        // It ends with a database that is closed, or has another owner.
        database.slate().refresh_manifest().await.map_err(|error| database.failed(&error))?;
        if tables(&database.slate().manifest(), &segment).is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
