//! Counting a partition that was written before logical partitions had sizes, once, when it is opened.
//!
//! The entries are written from the last logical partition to the first, in commits of a bounded number. The entry of the
//! first one is therefore the last thing written: it is there exactly when the counting is complete, whenever a crash
//! came, and looking for it is all that an ordinary opening costs. Nothing else writes to the partition meanwhile.

use shardlake_model::Result;
use shardlake_storage::{Batch, ScanOptions, Shard, Snapshot};

use super::LogicalSize;
use crate::item::stored_size;
use crate::keys::{self, HEADER, PartitionUid};

/// Entries of one commit.
const ENTRIES_PER_COMMIT: usize = 1000;

/// Writes the sizes of all logical partitions, where they are not there: see [`is_counted`].
pub(crate) async fn count(shard: &Shard, uid: PartitionUid) -> Result<()> {
    let snapshot = shard.snapshot();
    tracing::info!(partition = uid.0, "counting the sizes of logical partitions");
    let (start, end) = keys::space_range(uid, keys::ITEMS);
    let mut scan = snapshot.scan(start..end, ScanOptions { reverse: true, ..ScanOptions::default() });
    let mut batch = Batch::new();
    let mut current: Option<(Vec<u8>, LogicalSize)> = None;
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, value) in rows {
            let logical = keys::logical_part(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
            if let Some((done, size)) = current.take_if(|(open, _)| open != logical) {
                batch.put(keys::with_header(uid, keys::SIZES, &done), size.encode());
            }
            let (_, size) = current.get_or_insert_with(|| (logical.to_vec(), LogicalSize::default()));
            size.items += 1;
            size.size_bytes += stored_size(&value)?;
        }
        if batch.len() >= ENTRIES_PER_COMMIT {
            let full = std::mem::take(&mut batch);
            shard.commit(full).map_err(crate::storage_error)?.await.map_err(crate::storage_error)?;
        }
    }
    if let Some((first, size)) = current {
        batch.put(keys::with_header(uid, keys::SIZES, &first), size.encode());
    }
    shard.commit(batch).map_err(crate::storage_error)?.await.map_err(crate::storage_error)
}

/// Whether the first item's logical partition has its size, or there is no item.
pub(crate) async fn is_counted(snapshot: &Snapshot, uid: PartitionUid) -> Result<bool> {
    let (start, end) = keys::space_range(uid, keys::ITEMS);
    let mut scan = snapshot.scan(start..end, ScanOptions { limit: Some(1), ..ScanOptions::default() });
    let first = scan.next_chunk().await.map_err(crate::storage_error)?.into_iter().flatten().next();
    let Some((key, _)) = first else { return Ok(true) };
    let logical = keys::logical_part(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
    let size = snapshot.get(&keys::with_header(uid, keys::SIZES, logical)).await;
    Ok(size.map_err(crate::storage_error)?.is_some())
}
