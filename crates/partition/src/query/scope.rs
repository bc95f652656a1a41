//! Items in scope, and their number, from the sizes of their logical partitions.

use shardlake_model::Result;
use shardlake_storage::{Scan, ScanOptions};

use super::reader::Reader;
use crate::feed::{matches_filter, range_in};
use crate::keys;
use crate::sizes::LogicalSize;

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
        let (start, end) = range_in(reader.core.uid, keys::SIZES, reader.request.filter);
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
