//! What items are read from: a view, and what a transaction has written over it.

use shardlake_storage::{HotView, ScanOptions};

use crate::interactive::{MergedScan, OwnItems};
use crate::keys::PartitionUid;

/// Where items are read.
pub(crate) struct Source<'a> {
    pub uid: PartitionUid,
    pub hot: HotView,
    /// Laid over what is stored.
    pub own: Option<&'a OwnItems>,
}

impl<'a> Source<'a> {
    pub(super) fn scan(&self, start: &[u8], end: &[u8]) -> MergedScan<'a> {
        let scan = self.hot.scan(start.to_vec()..end.to_vec(), ScanOptions::default());
        MergedScan::new(scan, self.own, start, end)
    }
}
