//! Reading items in the order of their creation, a page at a time.
//!
//! Ordinals are that order: a position is the ordinal of the last item that was read, and stays valid when the partition is moved.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_model::Result;
use shardlake_routing::LogicalKey;

use crate::feed::PageLimits;
use crate::feed::created::{Direction, Source, WALKED_MAX, Walk};
use crate::item::StoredItem;
use crate::keys::{self, HEADER};
use crate::partition::Partition;
use crate::shape::ContainerSchema;

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// LSN of the partition, before the page was read.
    pub lsn: u64,
    pub size_bytes: usize,
}

/// One page of the acknowledged items of a logical partition.
pub async fn read_in_order(
    partition: &Partition,
    shape: &Arc<ContainerSchema>,
    now_seconds: u64,
    (logical, position): (&LogicalKey, InsertionPosition),
    limits: PageLimits,
) -> Result<InsertionPage> {
    let core = partition.core();
    let lsn = core.durable_lsn();
    let source = Source { uid: core.uid, hot: core.shard().cached_view(), own: None };
    core.check_open()?;
    let prefix = keys::logical_prefix(core.uid, logical);
    let has_position = match position.after {
        None => true,
        Some(after) => {
            let key = keys::created_key(core.uid, &prefix[HEADER..], after);
            source.hot.view().get(&key).await.map_err(crate::storage_error)?.is_some()
        }
    };
    let mut page = InsertionPage {
        items: Vec::new(),
        last: position.after,
        is_last: true,
        has_position,
        lsn,
        size_bytes: 0,
    };
    let direction = if position.is_backwards { Direction::Backward } else { Direction::Forward };
    let mut walk = Walk::new(&source, prefix, position.after, direction)?;
    loop {
        // One more shows whether more follow.
        let wanted = limits.items.saturating_sub(page.items.len()).saturating_add(1).min(WALKED_MAX);
        let rows = walk.next(&source, wanted).await?;
        if rows.is_empty() {
            return Ok(page);
        }
        for (_, record) in rows {
            let item = StoredItem::decode(record, shape)?;
            let is_full = page.items.len() >= limits.items
                || (page.size_bytes + item.json_size_bytes() > limits.size_bytes && !page.items.is_empty());
            if is_full {
                page.is_last = false;
                return Ok(page);
            }
            page.last = Some(item.ordinal());
            if !item.is_expired(now_seconds) {
                page.size_bytes += item.json_size_bytes();
                page.items.push(item);
            }
        }
        tokio::task::yield_now().await;
    }
}
