//! Rows that were collected behind a page: of a query whose order, groups or distinct values come from no index, so that each page
//! reads everything again. The next page finds them here by its position, if no commit and no definition has changed what it would
//! read, and else does without.
//!
//! They are held for the one page that goes on from there, and pass from page to page. The cache is bounded in bytes; what was used
//! last stays longest.

use std::sync::{Arc, Weak};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use shardlake_partition::ContainerShape;
use shardlake_sql::KeptRows;
use xxhash_rust::xxh3::Xxh3;

use crate::query_targets::Part;
use crate::running::Running;

/// Of all rows that are kept.
const BYTES_MAX: u64 = 64 << 20;
/// What is expected, for the tables of the cache.
const ENTRIES: usize = 256;

#[derive(Debug)]
pub struct KeptRowsCache(Cache<u128, Kept, BySize>);

#[derive(Debug, Clone)]
struct Kept {
    rows: KeptRows,
    lsn: u64,
    shape: Weak<ContainerShape>,
}

#[derive(Debug, Clone)]
struct BySize;

impl Weighter<u128, Kept> for BySize {
    fn weight(&self, _key: &u128, kept: &Kept) -> u64 {
        kept.rows.size_bytes().max(1) as u64
    }
}

/// A query in a part of the container, at one moment.
pub struct KeptPlace<'r> {
    shape: &'r Arc<ContainerShape>,
    lsn: u64,
    hasher: Xxh3,
}

impl KeptPlace<'_> {
    /// `lsn` is the partition's, read before the page.
    pub fn of<'r>(running: &'r Running<'_>, part: &Part, lsn: u64) -> KeptPlace<'r> {
        let mut hasher = Xxh3::new();
        hasher.update(&running.text_hash.to_be_bytes());
        hasher.update(&part.partition.uid.0.to_be_bytes());
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
    /// The rows behind a position, which nobody else has then.
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
