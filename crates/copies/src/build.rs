//! The first rows of an index: chunks of the source's items, each of one view.
//!
//! ```text
//! watch followed at LSN b │ chunk: view at LSN u, rows with their items' LSNs │ part (span, u): rounds
//! ```
//! A chunk that was interrupted has written rows of items which may be deleted before it is begun again,
//! in another view that does not show them. So parts that are built after an interruption continue from
//! `b`: every commit above it has its ended rows in the log.

use shardlake_catalog::PlaceRecord;
use shardlake_change_log::LogPosition;
use shardlake_document::partition_key_text;
use shardlake_model::Result;
use shardlake_partition::{CopyBatch, ItemRow, ItemsRound, RowStamp, StoredItem, item_of_position};
use shardlake_storage::Shard;

use crate::at_work::{IndexAtWork, interrupted};
use crate::groups;
use crate::parts::{gaps, within};
use crate::plan::row_of;
use crate::status::Refusal;

/// Items of one chunk.
const CHUNK_ITEMS: usize = 64_000;

/// Has every commit of the source record ended rows for the index, and returns where it began.
pub(crate) async fn begin(at: &IndexAtWork<'_>) -> Result<Vec<PlaceRecord>> {
    // A partition that is made meanwhile serves under this schema or a later one from the start.
    for partition in at.source.map.iter() {
        partition.hosted().partition().follow_watch(at.schema()).await?;
    }
    Ok(LogPosition::now(&at.source).records())
}

/// Builds the next chunk. Returns whether something is left.
pub(crate) async fn build_chunk(at: &IndexAtWork<'_>, is_fresh: bool) -> Result<bool> {
    let (built, begun) = {
        let live = at.entry.status.live();
        (live.checkpoint.source.clone(), live.checkpoint.target.clone())
    };
    let Some(span) = gaps(&built)?.into_iter().next() else { return Ok(false) };
    let mut partitions = at.source.map.overlapping(&span);
    let Some(partition) = partitions.find(|partition| partition.epk_range().contains(&span.min)) else {
        return Err(shardlake_model::Error::internal("a part of the hash space that no range has"));
    };
    let partition = partition.hosted().partition();
    partition.follow_watch(at.schema()).await?;
    let mut round = partition.items_round(&span, CHUNK_ITEMS).await?;
    match at.rows.is_grouped() {
        true => groups::write_chunk(at, &mut round).await?,
        false => write_chunk(at, &mut round).await?,
    }
    let covered = round.covered().expect("the chunk is read to its end");
    let parts = match is_fresh {
        true => vec![PlaceRecord::new(&covered, round.upto())],
        false => within(&begun, &covered)?,
    };
    at.entry.status.live().checkpoint.source.extend(parts);
    Ok(true)
}

async fn write_chunk(at: &IndexAtWork<'_>, round: &mut ItemsRound) -> Result<()> {
    let mut work = Shard::paced_work(at.serving.shards(), 1);
    while let Some(items) = round.next_page().await? {
        for items in items.chunks(CopyBatch::ROWS_MAX) {
            write(at, items).await?;
            work.pause().await;
            if at.is_interrupted() {
                return Err(interrupted());
            }
        }
    }
    Ok(())
}

async fn write(at: &IndexAtWork<'_>, items: &[ItemRow]) -> Result<()> {
    let mut rows = Vec::with_capacity(items.len());
    for ItemRow { key, record } in items {
        let (logical, id) = item_of_position(key)?;
        let item = StoredItem::decode(record.clone(), at.schema())?;
        let found = at.rows.rows_of(&item.view(), &logical.partition_key);
        if let Some(reason) = found.refused.into_iter().next() {
            let key_text = partition_key_text(&logical.partition_key);
            let refusal = Refusal { key: key_text, id, reason };
            at.entry.status.live().note_item(key.clone(), Some(refusal));
        }
        let stamp = |number| RowStamp {
            lsn: item.lsn(),
            source: RowStamp::source_of(&logical),
            generation: at.record.generation,
            number,
        };
        rows.extend(found.rows.into_iter().map(|row| row_of(row, stamp)));
    }
    at.apply(rows).await?;
    at.entry.status.live().items_built += items.len() as u64;
    Ok(())
}
