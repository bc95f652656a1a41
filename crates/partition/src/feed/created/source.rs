//! The source of items: a view, with the writes of a transaction over it.

use shardlake_storage::{CachedView, ScanOptions};

use crate::keys::PartitionUid;
use crate::open_transactions::{MergedScan, OwnItems};

/// Where items are read.
pub(crate) struct Source<'a> {
    pub uid: PartitionUid,
    pub hot: CachedView,
    /// Laid over the stored items.
    pub own: Option<&'a OwnItems>,
}

impl<'a> Source<'a> {
    pub(super) fn scan(&self, start: &[u8], end: &[u8]) -> MergedScan<'a> {
        let scan = self.hot.scan(start.to_vec()..end.to_vec(), ScanOptions::default());
        MergedScan::new(scan, self.own, start, end)
    }
}
