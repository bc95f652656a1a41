//! The end of a rebuild: rows of earlier generations, which no item of the source has any more, are deleted.

use shardlake_document::RawValue;
use shardlake_model::{ExpiredRows, Result};
use shardlake_partition::{CopyBatch, CopyRow, ItemRow, Rank, RowStamp, StoredItem, item_of_position};
use shardlake_routing::{Epk, KeyRange};

use crate::at_work::IndexAtWork;

/// Items of one view.
const CHUNK_ITEMS: usize = 64_000;

/// Deletes every row of a generation before the index's. To be repeated after an error. An index that keeps rows of expired items keeps
/// those of items that are not there: whether they expired or were deleted is not known any more.
pub(crate) async fn sweep(at: &IndexAtWork<'_>) -> Result<()> {
    let index = at.serving.entry_of_rid(at.entry.index)?;
    let keeps = at.record.settings.expired == ExpiredRows::Keep;
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
                        if keeps && !has_item(at, stamp.source, &row).await? {
                            continue;
                        }
                        let own = Rank::of(row.body()).filter(|_| at.rows.is_unique());
                        let id = own.map_or(id, |rank| rank.row);
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

/// Whether the source has the item of a row. Items are looked for in the part of the hash space that the row's stamp has.
async fn has_item(at: &IndexAtWork<'_>, source: [u8; 4], row: &StoredItem) -> Result<bool> {
    let Some(RawValue::String(wanted)) = row.body().get("_id") else { return Ok(false) };
    let mut rest = span_of(source);
    let mut routing = at.serving.routing_of(at.source.clone());
    while rest.min < rest.max {
        let found = routing.entry.map.overlapping(&rest).next().cloned();
        let Some(partition) = found else { return Ok(false) };
        let read = async {
            let mut round = partition.hosted().partition().items_round(&rest, CHUNK_ITEMS).await?;
            while let Some(items) = round.next_page().await? {
                for item in items {
                    if item_of_position(&item.key)?.1 == wanted {
                        return Ok(None);
                    }
                }
            }
            Ok(Some(round.covered().expect("the chunk is read to its end").max))
        };
        let read = read.await;
        if routing.has_moved(&read).await? {
            continue;
        }
        match read? {
            None => return Ok(true),
            Some(next) => rest.min = next,
        }
    }
    Ok(false)
}

/// The hashes that begin with four bytes.
fn span_of(prefix: [u8; 4]) -> KeyRange {
    let bound = |mut bytes: Vec<u8>| {
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Epk(bytes)
    };
    let next = u32::from_be_bytes(prefix).checked_add(1);
    let max = next.map_or(KeyRange::full().max, |next| bound(next.to_be_bytes().to_vec()));
    KeyRange { min: bound(prefix.to_vec()), max: max.min(KeyRange::full().max) }
}
