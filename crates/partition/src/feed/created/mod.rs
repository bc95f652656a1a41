//! The order of creation: items come without a sort as they were created, in each logical partition.
//!
//! Items lie in the order of their keys, and a row `N` for each names them by logical partition and
//! ordinal (keys.rs): ordinals ascend as items are created, and an item keeps its own. A partition
//! has a row for each of its items, and a mark records that. A partition that was written before
//! there were such rows gets them when it is opened.
//!
//! | file | content |
//! |---|---|
//! | `rows.rs` | the rows of a range of items in that order, whichever way is cheaper |
//! | `source.rs` | the view that they are read from |
//! | `order.rs` | puts the rows of a chunk in order |
//! | `walk.rs` | the items of one logical partition as the rows `N` name them, either way |
//! | `verify.rs` | whether each item has its row |

mod order;
mod rows;
mod source;
mod verify;
mod walk;

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_storage::{Batch, Row, ScanOptions, Shard, Snapshot};

use crate::keys::{self, HEADER, PartitionUid};

pub(crate) use order::{RowOrder, order_of};
pub(crate) use rows::{CreatedRows, HELD_LEAST, HELD_MAX, Next, Piece, ROWS_PER_NAMED, WALKED_MAX};
pub(crate) use source::Source;
pub(crate) use verify::verify;
pub(crate) use walk::{Direction, Walk};

/// Rows of one commit.
const ROWS_PER_COMMIT: usize = 4000;

/// The position behind an item: its logical partition and ordinal, as rows `N` have them.
pub(crate) fn position_of(key: &[u8], ordinal: u64) -> Result<Vec<u8>> {
    let logical = keys::logical_part(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
    Ok([logical, &ordinal.to_be_bytes()].concat())
}

/// The order of creation of items by place, where it is not that of their keys; of other rows there is none.
pub(crate) fn layout_of(rows: &[Row]) -> Option<Arc<[u32]>> {
    let are_items = rows.first().is_some_and(|(key, _)| keys::is_item(key));
    match are_items.then(|| order_of(rows)) {
        Some(Ok(RowOrder::Places(places))) => Some(places),
        // A row that is no item is reported when it is decoded.
        _ => None,
    }
}

/// Whether every item has its row.
pub(crate) async fn is_kept(snapshot: &Snapshot, uid: PartitionUid) -> Result<bool> {
    let mark = snapshot.get(&keys::created_mark_key(uid)).await.map_err(crate::storage_error)?;
    Ok(mark.is_some())
}

/// Writes the rows of all items, and the mark when they are all there. Nothing else writes to the partition meanwhile.
pub(crate) async fn build(shard: &Shard, uid: PartitionUid) -> Result<()> {
    tracing::info!(partition = uid.0, "noting the order in which items were created");
    // The ordinals name the items: no item is read.
    let (start, end) = keys::space_range(uid, keys::ORDINALS);
    let mut scan = shard.snapshot().scan(start..end, ScanOptions::SWEEP);
    let mut batch = Batch::new();
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, item) in rows {
            let ordinal = keys::ordinal_of(&key).ok_or_else(crate::malformed_key)?;
            let logical = keys::logical_part(&item).ok_or_else(crate::malformed_key)?;
            let id = item.slice(logical.len()..);
            batch.put(keys::created_key(uid, logical, ordinal), id);
        }
        if batch.len() >= ROWS_PER_COMMIT {
            let full = std::mem::take(&mut batch);
            shard.commit(full).map_err(crate::storage_error)?.await.map_err(crate::storage_error)?;
        }
    }
    batch.put(keys::created_mark_key(uid), Bytes::new());
    shard.commit(batch).map_err(crate::storage_error)?.await.map_err(crate::storage_error)
}
