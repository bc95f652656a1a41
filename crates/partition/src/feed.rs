//! Reading items in key order, a page at a time.
//!
//! A page is cut at a number of items or bytes and says after which key the next one starts. Keys lead with the epk, so
//! a position stays valid when the partition is split.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::{KeyComponent, Result};
use shardlake_routing::{Epk, EpkRange};
use shardlake_storage::ScanOptions;

use crate::interactive::{MergedScan, OwnItems};
use crate::item::StoredItem;
use crate::keys::{self, HEADER};
use crate::operation::{CommandContext, LogicalKey};
use crate::partition::Partition;
use crate::shape::ContainerShape;

/// Which items of a partition a feed covers.
#[derive(Debug, Clone)]
pub enum FeedFilter {
    Range(EpkRange),
    Logical(LogicalKey),
    /// A prefix of a hierarchical key: its epk range, and the components to match within it.
    Prefix(EpkRange, Vec<KeyComponent>),
}

#[derive(Debug, Clone, Copy)]
pub struct PageLimits {
    pub items: usize,
    pub size_bytes: usize,
}

#[derive(Debug)]
pub struct PartitionPage {
    pub items: Vec<StoredItem>,
    /// Position after which to go on (an item key without its header); `None` when the partition is exhausted.
    pub next: Option<Vec<u8>>,
    pub size_bytes: usize,
}

impl Partition {
    /// One page, in the order epk, partition key, id, of what is durable when it is read.
    #[tracing::instrument(name = "feed", level = "debug", skip_all, fields(partition = self.uid.0))]
    pub async fn read_page(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        filter: &FeedFilter,
        after: Option<&[u8]>,
        limits: PageLimits,
    ) -> Result<PartitionPage> {
        self.read_page_over(shape, command, filter, after, limits, None).await
    }

    /// The same with a transaction's own items in the place of others.
    pub(crate) async fn read_page_over(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        filter: &FeedFilter,
        after: Option<&[u8]>,
        limits: PageLimits,
        own: Option<&OwnItems>,
    ) -> Result<PartitionPage> {
        let (mut start, end) = match filter {
            FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => keys::epk_key_range(self.uid, range),
            FeedFilter::Logical(logical) => {
                let prefix = keys::logical_prefix(self.uid, logical);
                let end = keys::after_prefix(&prefix);
                (prefix, end)
            }
        };
        if let Some(after) = after {
            start = start.max(keys::after_item(self.uid, after));
        }
        let mut page = PartitionPage { items: Vec::new(), next: None, size_bytes: 0 };
        let mut last_key = None;
        if start >= end {
            return Ok(page);
        }
        let snapshot = self.shard().snapshot();
        self.check_open()?;
        let scan = snapshot.scan(start.clone()..end.clone(), ScanOptions::default());
        let mut scan = MergedScan::new(scan, own, &start, &end);
        while let Some(chunk) = scan.next_chunk().await? {
            for (key, value) in chunk {
                let item = StoredItem::decode(value, shape)?;
                let full = page.items.len() >= limits.items
                    || (page.size_bytes + item.json_size_bytes() > limits.size_bytes
                        && !page.items.is_empty());
                if full {
                    page.next = last_key.map(|key: Bytes| key[HEADER..].to_vec());
                    return Ok(page);
                }
                if item.is_expired(command.now.seconds()) || !matches_filter(filter, &key)? {
                    continue;
                }
                page.size_bytes += item.json_size_bytes();
                page.items.push(item);
                last_key = Some(key);
            }
            tokio::task::yield_now().await;
        }
        Ok(page)
    }
}

/// The hash of a feed position (an item key without its header), which may come from a client.
pub fn epk_of_position(position: &[u8]) -> Result<Epk> {
    let (logical, _) = keys::parse_item_key(position).ok_or_else(crate::malformed_key)?;
    Ok(logical.epk)
}

/// The item at a feed position, which is also what the change log calls it.
pub fn item_of_position(position: &[u8]) -> Result<(LogicalKey, String)> {
    let (logical, id) = keys::parse_item_key(position).ok_or_else(crate::malformed_key)?;
    Ok((logical, id.to_owned()))
}

pub(crate) fn matches_filter(filter: &FeedFilter, key: &[u8]) -> Result<bool> {
    let FeedFilter::Prefix(_, components) = filter else { return Ok(true) };
    let (logical, _) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
    Ok(components.iter().zip(&logical.partition_key.0).all(|(wanted, actual)| wanted.same(actual)))
}
