//! Reading items in the order of their creation, a page at a time.
//!
//! Ordinals are that order: a position is the ordinal of the last item that was read, and stays valid when the partition is moved.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_storage::ScanOptions;

use crate::feed::PageLimits;
use crate::item::StoredItem;
use crate::keys;
use crate::partition::Partition;
use crate::shape::ContainerShape;

/// Items of which the records are read together.
const READ_TOGETHER: usize = 128;

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InsertionPosition {
    /// The ordinal of the last item that was read.
    pub after: Option<u64>,
    pub is_backwards: bool,
}

#[derive(Debug)]
pub struct InsertionPage {
    pub items: Vec<StoredItem>,
    /// The ordinal of the last item that was passed; `None` where there is none.
    pub last: Option<u64>,
    /// Nothing followed when the page was read.
    pub is_last: bool,
    /// The item of the position was still there.
    pub has_position: bool,
    /// Of the partition, before the page was read.
    pub lsn: u64,
    pub size_bytes: usize,
}

/// One page of what is acknowledged when it is read.
pub async fn read_in_order(
    partition: &Partition,
    shape: &Arc<ContainerShape>,
    now_seconds: u64,
    position: InsertionPosition,
    limits: PageLimits,
) -> Result<InsertionPage> {
    let lsn = partition.durable_lsn();
    let snapshot = partition.shard().snapshot();
    partition.check_open()?;
    let (mut start, mut end) = keys::space_range(partition.uid, keys::ORDINALS);
    let mut has_position = true;
    if let Some(after) = position.after {
        let key = keys::ordinal_key(partition.uid, after);
        has_position = snapshot.get(&key).await.map_err(crate::storage_error)?.is_some();
        match position.is_backwards {
            true => end = key,
            false => start = [&key[..], &[0]].concat(),
        }
    }
    let mut page = InsertionPage {
        items: Vec::new(),
        last: position.after,
        is_last: true,
        has_position,
        lsn,
        size_bytes: 0,
    };
    let options = ScanOptions { reverse: position.is_backwards, ..ScanOptions::default() };
    let mut scan = snapshot.scan(start..end, options);
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for rows in rows.chunks(READ_TOGETHER.min(limits.items.max(1))) {
            let keys =
                rows.iter().map(|(_, item)| keys::with_header(partition.uid, keys::ITEMS, item).into());
            let records = snapshot.get_many(keys.collect::<Vec<Bytes>>()).await;
            for ((key, _), record) in rows.iter().zip(records.map_err(crate::storage_error)?) {
                let record = record.ok_or_else(crate::malformed_key)?;
                let item = StoredItem::decode(record, shape)?;
                let is_full = page.items.len() >= limits.items
                    || (page.size_bytes + item.json_size_bytes() > limits.size_bytes
                        && !page.items.is_empty());
                if is_full {
                    page.is_last = false;
                    return Ok(page);
                }
                page.last = keys::ordinal_of(key);
                if !item.is_expired(now_seconds) {
                    page.size_bytes += item.json_size_bytes();
                    page.items.push(item);
                }
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(page)
}
