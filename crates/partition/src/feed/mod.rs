//! Reading items in the order of creation, a page at a time.
//!
//! A page is cut at a number of items or bytes and returns the place of the next one: its logical
//! partition and its ordinal. The first leads with the epk, so a position stays valid when the
//! partition is split.

pub(crate) mod created;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shardlake_model::{KeyComponent, Result};
use shardlake_routing::LogicalKey;
use shardlake_routing::{Epk, KeyRange};

use crate::core::Core;
use crate::feed::created::{
    CreatedRows, HELD_LEAST, HELD_MAX, Next, ROWS_PER_NAMED, Source, WALKED_MAX, position_of,
};
use crate::item::StoredItem;
use crate::keys::{self, HEADER, PartitionUid};
use crate::open_transactions::OwnItems;
use crate::operation::CommandContext;
use crate::shape::ContainerSchema;

/// Which items of a partition a feed covers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FeedFilter {
    Range(KeyRange),
    Logical(LogicalKey),
    /// A prefix of a hierarchical key: its epk range, and the components to match within it.
    Prefix(KeyRange, Vec<KeyComponent>),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct PageLimits {
    pub items: usize,
    pub size_bytes: usize,
}

#[derive(Debug)]
pub struct PartitionPage {
    pub items: Vec<StoredItem>,
    /// Position after which to continue (the key of a row `N` without its header); `None` when the partition is exhausted.
    pub next: Option<Vec<u8>>,
    pub size_bytes: usize,
}

/// One page, in the order epk, partition key, creation, of the items that are durable when it is read, with a transaction's `own`
/// items in the place of others.
#[tracing::instrument(name = "feed", level = "debug", skip_all, fields(partition = core.uid.0))]
pub(crate) async fn read_page(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    command: &CommandContext,
    filter: &FeedFilter,
    after: Option<&[u8]>,
    limits: PageLimits,
    own: Option<&OwnItems>,
) -> Result<PartitionPage> {
    let (start, end) = range_in(core.uid, keys::ITEMS, filter);
    let mut page = PartitionPage { items: Vec::new(), next: None, size_bytes: 0 };
    if start >= end {
        return Ok(page);
    }
    let source = Source { uid: core.uid, hot: core.shard().cached_view(), own };
    core.check_open()?;
    let mut rows = match after {
        Some(after) => CreatedRows::after(source, (start, end), after, |_| None)?,
        None => CreatedRows::new(source, (start, end), None, |_| None),
    };
    let mut last = None;
    loop {
        let room = limits.items - page.items.len() + 1;
        let held_max = room.saturating_mul(ROWS_PER_NAMED).clamp(HELD_LEAST, HELD_MAX);
        let piece = match rows.next(held_max, room.min(WALKED_MAX)).await? {
            Next::Piece(piece) => piece,
            Next::Large(prefix) => {
                rows.walk(prefix)?;
                continue;
            }
            Next::End => return Ok(page),
        };
        for (key, value) in piece.rows() {
            let item = StoredItem::decode(value.clone(), shape)?;
            let full = page.items.len() >= limits.items
                || (page.size_bytes + item.json_size_bytes() > limits.size_bytes && !page.items.is_empty());
            if full {
                page.next =
                    last.map(|(key, ordinal): (Bytes, u64)| position_of(&key, ordinal)).transpose()?;
                return Ok(page);
            }
            if item.is_expired(command.now.seconds()) || !matches_filter(filter, key)? {
                continue;
            }
            page.size_bytes += item.json_size_bytes();
            last = Some((key.clone(), item.envelope().ordinal));
            page.items.push(item);
        }
        tokio::task::yield_now().await;
    }
}

/// First and last-exclusive key of a scope in a space whose keys lead with the partition key.
pub(crate) fn range_in(uid: PartitionUid, space: u8, filter: &FeedFilter) -> (Vec<u8>, Vec<u8>) {
    match filter {
        FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => keys::epk_range_in(uid, space, range),
        FeedFilter::Logical(logical) => {
            let prefix = keys::logical_prefix_in(uid, space, logical);
            let end = keys::after_prefix(&prefix);
            (prefix, end)
        }
    }
}

/// The hash of a feed position, which may come from a client.
pub fn epk_of_position(position: &[u8]) -> Result<Epk> {
    let logical = keys::parse_created_key(position).and_then(|(logical, _)| keys::parse_size_key(logical));
    logical.map(|logical| logical.epk).ok_or_else(crate::malformed_key)
}

/// An item as the change log calls it.
pub fn item_of_position(position: &[u8]) -> Result<(LogicalKey, String)> {
    let (logical, id) = keys::parse_item_key(position).ok_or_else(crate::malformed_key)?;
    Ok((logical, id.to_owned()))
}

pub(crate) fn matches_filter(filter: &FeedFilter, key: &[u8]) -> Result<bool> {
    let FeedFilter::Prefix(_, components) = filter else { return Ok(true) };
    let (logical, _) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
    Ok(components.iter().zip(&logical.partition_key.0).all(|(wanted, actual)| wanted.same(actual)))
}
