//! Counts of the items that have a value under a path, for queries that order by it: when all have,
//! none is missing from the index, and there is no item to look for outside of it.
//!
//! A count starts without stopping writes: the path is noted under the sequencer, and every later
//! commit notes its changes with its place in the shard's order. A view that shows all earlier
//! commits is counted, and the changes of commits that it does not show are added.

use std::sync::Arc;

use shardlake_document::TypeTag;
use shardlake_model::Result;
use shardlake_storage::{Batch, ScanOptions, Seq, View};

use crate::core::Core;
use crate::index::{COUNTED_PATHS_MAX, Count, CountedPath, counter_key, index_prefix};
use crate::keys::after_prefix;

/// Counts a path from now on, in the background. Not where the shard refuses writes: each query would ask again in vain.
pub(crate) fn count_path_in_background(core: &Arc<Core>, index_id: u16, path_hash: u64) {
    if core.shard().check_writable().is_err() {
        return;
    }
    let core = core.clone();
    tokio::spawn(async move {
        if let Err(error) = count_path(&core, index_id, path_hash).await {
            // Queries do without the count, and the next one asks again.
            tracing::warn!(partition = core.uid.0, %error, "counting the items with a path stopped");
        }
    });
}

/// Counts a path without array elements in a whole generation from now on, unless too many are counted already. Must
/// be polled to its end.
pub(crate) async fn count_path(core: &Core, index_id: u16, path_hash: u64) -> Result<()> {
    {
        let mut sequencer = core.sequencer.hold().await;
        let maintained = &mut sequencer.maintained;
        let is_known = maintained.counted.iter().any(|counted| counted.is(index_id, path_hash));
        let is_maintained = maintained.layouts.iter().any(|layout| layout.id == index_id);
        let is_full = maintained.counted.len() >= COUNTED_PATHS_MAX;
        if core.is_closed() || is_known || !is_maintained || is_full {
            return Ok(());
        }
        maintained.counted.push(CountedPath { index_id, path_hash, count: Count::Begun(Vec::new()) });
    }
    let counted = count_in_storage(core, index_id, path_hash).await;
    let stored = match counted {
        Ok(counted) => store_count(core, index_id, path_hash, counted).await,
        Err(error) => Err(error),
    };
    if stored.is_err() {
        let counted = &mut core.sequencer.hold().await.maintained.counted;
        counted.retain(|counted| !counted.is(index_id, path_hash));
    }
    stored
}

/// How many keys there are, and the commit up to which that is so. Every later one is noted.
async fn count_in_storage(core: &Core, index_id: u16, path_hash: u64) -> Result<(u64, Seq)> {
    core.settle().await?;
    let view = core.shard().view();
    let prefix = index_prefix(core.uid, index_id, path_hash);
    let mut first = prefix.clone();
    first.push(TypeTag::Null as u8);
    let count = count_keys(&view, first..after_prefix(&prefix)).await?;
    Ok((count, view.seq()))
}

async fn store_count(core: &Core, index_id: u16, path_hash: u64, (count, seen): (u64, Seq)) -> Result<()> {
    let mut sequencer = core.sequencer.hold().await;
    // The generation may have been dropped meanwhile, and its counts with it.
    if core.is_closed() {
        return Ok(());
    }
    let counted = &mut sequencer.maintained.counted;
    let Some(place) = counted.iter().position(|counted| counted.is(index_id, path_hash)) else {
        return Ok(());
    };
    let Count::Begun(changes) = &counted[place].count else { return Ok(()) };
    let since: i64 = changes.iter().filter(|(seq, _)| *seq > seen).map(|(_, by)| by).sum();
    let total = count.saturating_add_signed(since);
    let mut batch = Batch::new();
    batch.put(counter_key(core.uid, index_id, path_hash), total.to_be_bytes().to_vec());
    let commit = core.shard().commit(batch).map_err(crate::storage_error)?;
    counted[place].count = Count::Known(total);
    drop(sequencer);
    commit.await.map_err(crate::storage_error)
}

async fn count_keys(view: &View, range: std::ops::Range<Vec<u8>>) -> Result<u64> {
    let mut scan = view.scan(range, ScanOptions::default());
    let mut count = 0;
    while let Some(rows) = scan.count_chunk().await.map_err(crate::storage_error)? {
        count += rows as u64;
        tokio::task::yield_now().await;
    }
    Ok(count)
}
