//! The first rows of an index of groups: chunks of the source, each of one view and whole logical partitions.
//!
//! A row is true at the LSN of its chunk's view. A chunk that was interrupted may have written rows of groups
//! that have ended when it is begun again. The rounds that follow have all changes above the LSNs of these rows,
//! so the rows end there.

use shardlake_document::partition_key_text;
use shardlake_model::Result;
use shardlake_partition::{CopyBatch, ItemsRound};
use shardlake_storage::Shard;

use super::chunk::{ChunkPasses, CountedGroup, SeenItem};
use super::rows::GroupRows;
use crate::at_work::{IndexAtWork, interrupted};
use crate::status::Refusal;

/// Writes the groups of a chunk. Fails where the task is to end before.
pub(crate) async fn write_chunk(at: &IndexAtWork<'_>, chunk: &mut ItemsRound) -> Result<()> {
    // Rows have the LSN of the view, which no crash may give to another commit.
    chunk.durable().await?;
    let mut work = Shard::paced_work(at.serving.shards(), 1);
    let check = || if at.is_interrupted() { Err(interrupted()) } else { Ok(()) };
    let mut passes = ChunkPasses::new(at, check);
    while let Some(groups) = passes.next(chunk, &mut work, |seen| note(at, seen)).await? {
        let mut rows = GroupRows::new(at, chunk.upto());
        for (id, CountedGroup { place, source, keys, state }) in groups {
            rows.add(id, place, &source, &keys, &state);
            if rows.len() == CopyBatch::ROWS_MAX {
                rows.apply().await?;
                work.pause().await;
            }
        }
        rows.apply().await?;
    }
    Ok(())
}

fn note(at: &IndexAtWork<'_>, SeenItem { item, logical, id, refused }: SeenItem<'_>) {
    at.entry.status.live().items_built += 1;
    if let Some(reason) = refused.into_iter().next() {
        let key = partition_key_text(&logical.partition_key);
        at.entry.status.live().note_item(item.key.clone(), Some(Refusal { key, id, reason }));
    }
}
