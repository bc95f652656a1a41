//! The end of a rebuild: rows of earlier generations, which no item of the source has any more, are deleted.

use shardlake_model::Result;
use shardlake_partition::{CopyBatch, CopyRow, ItemRow, RowStamp, StoredItem, item_of_position};

use crate::at_work::IndexAtWork;

/// Items of one view.
const CHUNK_ITEMS: usize = 64_000;

/// Deletes every row of a generation before the index's. To be repeated after an error.
pub(crate) async fn sweep(at: &IndexAtWork<'_>) -> Result<()> {
    let index = at.serving.entry_of_rid(at.entry.index)?;
    for partition in index.map.iter() {
        let mut rest = Some(partition.epk_range().clone());
        while let Some(span) = rest {
            let mut round = partition.hosted().partition().items_round(&span, CHUNK_ITEMS).await?;
            while let Some(items) = round.next_page().await? {
                let mut ends = Vec::new();
                for ItemRow { key, record } in items {
                    let row = StoredItem::decode(record, &index.shape)?;
                    let stamp = RowStamp::of_etag(row.etag());
                    if stamp.generation < at.record.generation {
                        let (key, id) = item_of_position(&key)?;
                        ends.push(CopyRow { key, id, stamp, body: None });
                    }
                }
                for ends in ends.chunks(CopyBatch::ROWS_MAX) {
                    at.apply(ends.to_vec()).await?;
                }
            }
            rest = round.rest();
        }
    }
    Ok(())
}
