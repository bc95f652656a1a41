//! How SlateDB is set up.

use std::sync::Arc;
use std::time::Duration;

use slatedb::config::{
    CompressionCodec, GarbageCollectorDirectoryOptions, GarbageCollectorOptions, Settings, SstBlockSize,
};
use slatedb::db_cache::foyer::{FoyerCache, FoyerCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::{PrefixExtractor, PrefixTarget};

/// Larger blocks compress better and are fetched in as many requests.
pub(super) const BLOCK_SIZE: SstBlockSize = SstBlockSize::Block16Kib;
pub(super) const UID_BYTES: usize = 4;
/// Memtables that may wait to be uploaded, with the one that takes the writes.
const MEMTABLES_MAX: u64 = 4;
/// A reader may hold tables that were merged since for so long.
const TABLES_KEPT: Duration = Duration::from_hours(1);
/// A writer that slept for less cannot take the name of a log object again.
const LOG_KEPT: Duration = Duration::from_hours(24);

pub(super) fn of(memtable_bytes: u64, log_kept: Duration) -> Settings {
    let memtable_bytes = usize::try_from(memtable_bytes).unwrap_or(usize::MAX / 8).max(1 << 20);
    let kept = |min_age| Some(GarbageCollectorDirectoryOptions { min_age, ..Default::default() });
    Settings {
        // The committer flushes the log when there is something: a timer would cost a lone writer half of its period.
        flush_interval: None,
        // The writer learns of merged tables by it; who owns the database is told by the log.
        manifest_poll_interval: Duration::from_secs(2),
        l0_sst_size_bytes: memtable_bytes,
        max_unflushed_bytes: memtable_bytes * MEMTABLES_MAX as usize,
        // Counted in each segment, that is in each partition of up to 64.
        l0_max_ssts_per_key: 8,
        l0_max_ssts: 8 * 64,
        // Without it a gateway that compresses by itself unpacks megabytes for each block.
        compression_codec: Some(CompressionCodec::Lz4),
        garbage_collector_options: Some(GarbageCollectorOptions {
            compacted_options: kept(TABLES_KEPT),
            wal_options: kept(log_kept.max(LOG_KEPT)),
            // Fences are never collected: they keep out a writer that slept longer than anything else is kept.
            wal_fence_options: None,
            ..GarbageCollectorOptions::default()
        }),
        ..Settings::default()
    }
}

/// What was read of the tables of all shards of a process.
#[derive(Clone)]
pub struct SharedCache(pub(super) Arc<dyn DbCache>);

impl SharedCache {
    pub fn new(bytes: u64) -> SharedCache {
        SharedCache(cache(bytes))
    }
}

impl std::fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedCache")
    }
}

/// Of blocks, and a quarter as much of indexes and filters, so that one scan does not push those out.
pub(super) fn cache(bytes: u64) -> Arc<dyn DbCache> {
    let of = |max_capacity: u64| -> Option<Arc<dyn DbCache>> {
        let options = FoyerCacheOptions { max_capacity, ..FoyerCacheOptions::default() };
        Some(Arc::new(FoyerCache::new_with_opts(options)))
    };
    let cache = SplitCache::new().with_block_cache(of(bytes - bytes / 5)).with_meta_cache(of(bytes / 5));
    Arc::new(cache.build())
}

/// Each partition is a segment: its number leads every key.
pub(super) struct Uid;

impl PrefixExtractor for Uid {
    fn name(&self) -> &str {
        "shardlake uid4"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let bytes = match target {
            PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes) => bytes,
        };
        (bytes.len() >= UID_BYTES).then_some(UID_BYTES)
    }
}
