//! Cache of rows collected ahead, for sorted, grouped and distinct results without a suitable index, whose every page would read all
//! items again.
//!
//! A page stores the rest of its rows under the position of the next page. The next page removes them and stores its own rest. The rows
//! are valid while the partition's LSN and the container's definition are unchanged. The cache is bounded in bytes, and evicts the least
//! recently used rows.

use std::sync::{Arc, Weak};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use shardlake_partition::ContainerSchema;
use shardlake_sql::KeptRows;
use xxhash_rust::xxh3::Xxh3;

use crate::query_targets::Part;
use crate::running::Running;

/// Bound of the cache, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Estimated number of entries, which sizes the cache's tables.
const ENTRIES: usize = 256;

#[derive(Debug)]
pub struct KeptRowsCache(Cache<u128, Kept, BySize>);

#[derive(Debug, Clone)]
struct Kept {
    rows: KeptRows,
    lsn: u64,
    shape: Weak<ContainerSchema>,
}

#[derive(Debug, Clone)]
struct BySize;

impl Weighter<u128, Kept> for BySize {
    fn weight(&self, _key: &u128, kept: &Kept) -> u64 {
        kept.rows.size_bytes().max(1) as u64
    }
}

/// A query on a part of the container at one LSN.
pub struct KeptPlace<'r> {
    shape: &'r Arc<ContainerSchema>,
    lsn: u64,
    hasher: Xxh3,
}

impl KeptPlace<'_> {
    /// `lsn` is the partition's, read before the page.
    pub fn of<'r>(running: &'r Running<'_>, part: &Part, lsn: u64) -> KeptPlace<'r> {
        let mut hasher = Xxh3::new();
        hasher.update(&running.text_hash.to_be_bytes());
        if let Some(filter) = &running.resume_filter {
            hasher.update(&filter.fingerprint());
        }
        hasher.update(&part.partition.uid().0.to_be_bytes());
        hasher.update(format!("{:?}", part.filter).as_bytes());
        KeptPlace { shape: &running.entry.shape, lsn, hasher }
    }

    fn key(&self, position: &[u8]) -> u128 {
        let mut hasher = self.hasher.clone();
        hasher.update(position);
        hasher.digest128()
    }
}

impl Default for KeptRowsCache {
    fn default() -> KeptRowsCache {
        KeptRowsCache(Cache::with_weighter(ENTRIES, BYTES_MAX, BySize))
    }
}

impl KeptRowsCache {
    /// Removes the rows of a position.
    pub fn take(&self, place: &KeptPlace<'_>, position: &[u8]) -> Option<KeptRows> {
        let (_, kept) = self.0.remove(&place.key(position))?;
        let is_current = kept.lsn == place.lsn && kept.shape.as_ptr() == Arc::as_ptr(place.shape);
        is_current.then_some(kept.rows)
    }

    pub fn keep(&self, place: &KeptPlace<'_>, position: &[u8], rows: KeptRows) {
        let kept = Kept { rows, lsn: place.lsn, shape: Arc::downgrade(place.shape) };
        self.0.insert(place.key(position), kept);
    }
}
