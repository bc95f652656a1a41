//! Items in scope, and their number, from the sizes of their logical partitions.

use shardlake_model::Result;
use shardlake_storage::{Scan, ScanOptions};

use super::Reader;
use crate::feed::{FeedFilter, matches_filter};
use crate::keys::{self, PartitionUid};
use crate::sizes::LogicalSize;

/// First and last-exclusive key of a scope in a space whose keys lead with the partition key.
pub(super) fn range_in(uid: PartitionUid, space: u8, filter: &FeedFilter) -> (Vec<u8>, Vec<u8>) {
    match filter {
        FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => keys::epk_range_in(uid, space, range),
        FeedFilter::Logical(logical) => {
            let prefix = keys::logical_prefix_in(uid, space, logical);
            let end = keys::after_prefix(&prefix);
            (prefix, end)
        }
    }
}

impl Reader<'_> {
    /// Whether every item of the partition is in scope.
    pub fn covers_partition(&self) -> bool {
        match self.request.filter {
            FeedFilter::Range(range) => range.contains_range(&self.partition.epk_range),
            FeedFilter::Logical(_) | FeedFilter::Prefix(..) => false,
        }
    }

    /// Whether an item is, by its key.
    pub fn is_in_scope(&self, key: &[u8]) -> Result<bool> {
        let (start, end) = &self.scope;
        Ok(&start[..] <= key && key < &end[..] && matches_filter(self.request.filter, key)?)
    }
}

/// How many items are in scope, as far as it was asked for.
pub(super) struct ScopeItems {
    items: u64,
    /// Logical partitions that were counted.
    pub keys: u64,
    /// Those that were not counted yet.
    rest: Option<Scan>,
}

impl ScopeItems {
    pub fn of(reader: &Reader<'_>) -> ScopeItems {
        let (start, end) = range_in(reader.partition.uid, keys::SIZES, reader.request.filter);
        let rest = (start < end).then(|| reader.hot.scan(start..end, ScanOptions::default()));
        ScopeItems { items: 0, keys: 0, rest }
    }

    /// Whether there are at most so many. Counts no further than necessary.
    pub async fn are_at_most(&mut self, reader: &Reader<'_>, limit: u64) -> Result<bool> {
        while self.items <= limit && self.rest.is_some() {
            self.count_on(reader).await?;
        }
        Ok(self.items <= limit)
    }

    pub async fn all(&mut self, reader: &Reader<'_>) -> Result<u64> {
        while self.rest.is_some() {
            self.count_on(reader).await?;
        }
        Ok(self.items)
    }

    async fn count_on(&mut self, reader: &Reader<'_>) -> Result<()> {
        let Some(scan) = &mut self.rest else { return Ok(()) };
        let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? else {
            self.rest = None;
            return Ok(());
        };
        for (key, size) in rows {
            if matches_filter(reader.request.filter, &key)? {
                self.items += LogicalSize::decode(&size)?.items;
                self.keys += 1;
            }
        }
        reader.check_interrupted()
    }
}
