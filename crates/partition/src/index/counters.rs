//! Counts of the items that have a value under a path, for queries that order by it: when all have, none is missing from the
//! index, and there is nothing to look for beside it.
//!
//! A count starts without stopping writes: under the sequencer, with every queued commit acknowledged, a snapshot is taken and the
//! path is noted; from then on commits add up what they change; the snapshot is counted; both are stored together.

use std::sync::Arc;

use shardlake_model::Result;
use shardlake_storage::{Batch, ScanOptions, Snapshot};

use super::keys::{COUNTERS, counter_key, index_prefix};
use super::maintain::{COUNTED_PATHS_MAX, CountedPath};
use crate::keys::{HEADER, PartitionUid, after_prefix, space_range};
use crate::partition::Partition;
use shardlake_document::TypeTag;

/// The paths that a partition counts, from storage.
pub(crate) async fn load_counted(snapshot: &Snapshot, uid: PartitionUid) -> Result<Vec<CountedPath>> {
    let (start, end) = space_range(uid, COUNTERS);
    let mut scan = snapshot.scan(start..end, ScanOptions::default());
    let mut counted = Vec::new();
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, _) in rows {
            let rest = key.get(HEADER..).unwrap_or_default();
            let (Some(id), Some(hash)) = (rest.first_chunk::<2>(), rest.last_chunk::<8>()) else {
                return Err(crate::malformed_key());
            };
            let (index_id, path_hash) = (u16::from_be_bytes(*id), u64::from_be_bytes(*hash));
            counted.push(CountedPath { index_id, path_hash, pending: None });
        }
    }
    Ok(counted)
}

impl Partition {
    /// Counts a path from now on, in the background. Not where the shard refuses writes: each query would ask again in vain.
    pub fn count_path_in_background(self: &Arc<Self>, index_id: u16, path_hash: u64) {
        if self.shard().check_writable().is_err() {
            return;
        }
        let partition = self.clone();
        tokio::spawn(async move {
            if let Err(error) = partition.count_path(index_id, path_hash).await {
                // Queries do without the count, and the next one asks again.
                tracing::warn!(partition = partition.uid.0, %error, "counting the items with a path stopped");
            }
        });
    }

    /// Counts a path without array elements in a whole generation from now on, unless too many are counted already. Must
    /// be polled to its end.
    pub async fn count_path(&self, index_id: u16, path_hash: u64) -> Result<()> {
        let is_it = |counted: &CountedPath| (counted.index_id, counted.path_hash) == (index_id, path_hash);
        let snapshot = {
            let mut sequencer = self.sequencer.hold().await;
            let maintained = &sequencer.maintained;
            let is_known = maintained.counted.iter().any(is_it);
            let is_maintained = maintained.layouts.iter().any(|layout| layout.id == index_id);
            let is_closed = self.is_closed();
            if is_closed || is_known || !is_maintained || maintained.counted.len() >= COUNTED_PATHS_MAX {
                return Ok(());
            }
            // With every queued commit acknowledged, a snapshot shows exactly what was before the first commit noted below.
            self.drain(&mut sequencer).await?;
            sequencer.maintained.counted.push(CountedPath { index_id, path_hash, pending: Some(0) });
            self.shard().snapshot()
        };
        let prefix = index_prefix(self.uid, index_id, path_hash);
        let mut first = prefix.clone();
        first.push(TypeTag::Null as u8);
        let stored = match count_keys(&snapshot, first..after_prefix(&prefix)).await {
            Ok(count) => self.store_count(index_id, path_hash, count).await,
            Err(error) => Err(error),
        };
        if stored.is_err() {
            self.sequencer.hold().await.maintained.counted.retain(|counted| !is_it(counted));
        }
        stored
    }

    async fn store_count(&self, index_id: u16, path_hash: u64, count: i64) -> Result<()> {
        let mut sequencer = self.sequencer.hold().await;
        let is_it = |counted: &CountedPath| (counted.index_id, counted.path_hash) == (index_id, path_hash);
        // The generation may have gone meanwhile, and its counts with it.
        if self.is_closed() {
            return Ok(());
        }
        let Some(place) = sequencer.maintained.counted.iter().position(is_it) else { return Ok(()) };
        let total = count + sequencer.maintained.counted[place].pending.unwrap_or(0);
        let key = bytes::Bytes::from(counter_key(self.uid, index_id, path_hash));
        let value = bytes::Bytes::copy_from_slice(&total.max(0).unsigned_abs().to_be_bytes());
        let mut batch = Batch::new();
        batch.put(key.clone(), value.clone());
        let commit = self.shard().commit(batch).map_err(crate::storage_error)?;
        sequencer.pending.add(commit.seq(), std::iter::once((key, Some(value))));
        sequencer.maintained.counted[place].pending = None;
        drop(sequencer);
        commit.await.map_err(crate::storage_error)
    }
}

async fn count_keys(snapshot: &Snapshot, range: std::ops::Range<Vec<u8>>) -> Result<i64> {
    let mut scan = snapshot.scan(range, ScanOptions::default());
    let mut count = 0;
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        count += rows.len() as i64;
        tokio::task::yield_now().await;
    }
    Ok(count)
}
