//! Items of one logical partition in the view of a round, for followers that look again at all of them.

use shardlake_model::Result;
use shardlake_routing::LogicalKey;
use shardlake_storage::{Scan, ScanOptions};

use super::items_round::ItemRow;
use super::round::RoundView;
use crate::keys::{self, HEADER};

/// A scan in the order of ids. Expired items that are still stored are among the items.
pub struct LogicalItems(Scan);

impl std::fmt::Debug for LogicalItems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogicalItems").finish_non_exhaustive()
    }
}

impl RoundView {
    /// The items of a logical partition, as the view has them.
    pub fn items_of(&self, logical: &LogicalKey) -> LogicalItems {
        let start = keys::logical_prefix(self.core.uid, logical);
        let end = keys::after_prefix(&start);
        LogicalItems(self.view.scan(start..end, ScanOptions::SWEEP))
    }
}

impl LogicalItems {
    /// The next items; `None` at the end.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ItemRow>>> {
        let rows = self.0.next_chunk().await.map_err(crate::storage_error)?;
        let row = |(key, record): (bytes::Bytes, bytes::Bytes)| ItemRow { key: key.slice(HEADER..), record };
        Ok(rows.map(|rows| rows.into_iter().map(row).collect()))
    }
}
