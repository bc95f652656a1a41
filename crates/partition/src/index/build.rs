//! Filling a generation of the index with the items that are there already, while writes go on.
//!
//! From the moment the partition maintains the generation, every commit keeps it right for the items it writes; the build adds
//! the terms of all others, chunk by chunk in key order, each chunk under the sequencer so that no write comes between
//! reading an item and adding its terms. Adding a term twice changes nothing. Each chunk stores how far the build is, so a
//! restart goes on from there.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::Result;
use shardlake_storage::{Batch, ScanOptions};

use super::keys::{self, generation_range, posting_key};
use super::layout::IndexLayout;
use super::terms::ItemTerms;
use crate::item::StoredItem;
use crate::keys::{HEADER, ITEMS, after_item, space_range};
use crate::partition::Partition;
use crate::shape::ContainerShape;

/// Items indexed in one commit, during which writes of the partition wait.
const CHUNK_ITEMS: usize = 100;
/// Between two commits, so that the work in the foreground goes first.
const PAUSE: Duration = Duration::from_millis(2);

/// How a build ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildEnd {
    Complete,
    /// The generation is not wanted any more.
    Superseded,
}

impl Partition {
    /// Decides which generations every later commit keeps up to date.
    pub async fn maintain_indexes(&self, layouts: Vec<Arc<IndexLayout>>) {
        let mut sequencer = self.sequencer.lock().await;
        let kept: Vec<u16> = layouts.iter().map(|layout| layout.id).collect();
        sequencer.maintained.counted.retain(|counted| kept.contains(&counted.index_id));
        sequencer.maintained.layouts = layouts;
    }

    /// Adds the terms of every item to a generation that the partition maintains. `done` is told how many items were dealt
    /// with.
    pub async fn build_index(
        &self,
        shape: &Arc<ContainerShape>,
        layout: &Arc<IndexLayout>,
        done: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<BuildEnd> {
        let marker = keys::marker_key(self.uid, layout.id);
        let stored = self.shard().get(&marker).await.map_err(crate::storage_error)?;
        let mut after = stored.map(|key| key.to_vec());
        loop {
            let commit = {
                let mut sequencer = self.sequencer.lock().await;
                if !sequencer.maintained.layouts.iter().any(|maintained| maintained.id == layout.id) {
                    return Ok(BuildEnd::Superseded);
                }
                if let Some(last) = sequencer.pending.last_seq() {
                    self.wait_for(last).await?;
                    sequencer.pending.forget_applied(self.shard().applied());
                }
                let (first, end) = space_range(self.uid, ITEMS);
                let start = after.as_deref().map_or(first, |after| after_item(self.uid, after));
                let options = ScanOptions { limit: Some(CHUNK_ITEMS), reverse: false };
                let mut scan = self.shard().snapshot().scan(start..end, options);
                let (mut batch, mut items) = (Batch::new(), 0);
                while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
                    for (key, value) in rows {
                        let item = StoredItem::decode(value, shape)?;
                        for term in ItemTerms::of(&item.view(), layout).iter() {
                            let ordinal = item.envelope().ordinal;
                            batch.put(posting_key(self.uid, layout.id, term, ordinal), bytes::Bytes::new());
                        }
                        items += 1;
                        after = Some(key[HEADER..].to_vec());
                    }
                }
                if items == 0 {
                    return Ok(BuildEnd::Complete);
                }
                done(items);
                batch.put(marker.clone(), after.clone().unwrap_or_default());
                self.shard().commit(batch).map_err(crate::storage_error)?
            };
            commit.await.map_err(crate::storage_error)?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Deletes what is left of all generations but these, which must be the maintained ones.
    pub async fn drop_indexes_except(&self, kept: &[u16]) -> Result<()> {
        let mut kept = kept.to_vec();
        kept.sort_unstable();
        let mut first = 0;
        for id in kept.into_iter().chain(std::iter::once(u16::MAX)) {
            if first < id {
                let (start, _) = generation_range(self.uid, first);
                let (end, _) = generation_range(self.uid, id);
                self.shard().drop_range(start, end).await.map_err(crate::storage_error)?;
                for space in [keys::COUNTERS, keys::MARKERS] {
                    let (start, end) = keys::range_of_ids(self.uid, space, first, id);
                    self.shard().drop_range(start, end).await.map_err(crate::storage_error)?;
                }
            }
            first = id.saturating_add(1);
        }
        Ok(())
    }
}
