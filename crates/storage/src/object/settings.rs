//! How SlateDB is set up.

use std::sync::Arc;
use std::time::Duration;

use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, CompressionCodec, GarbageCollectorDirectoryOptions,
    GarbageCollectorOptions, Settings, SstBlockSize,
};
use slatedb::db_cache::foyer::{FoyerCache, FoyerCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::{PrefixExtractor, PrefixTarget};

use super::write_memory::SHARE_OF_A_MEMTABLE;

/// Larger blocks compress better and are fetched in as many requests.
pub(super) const BLOCK_SIZE: SstBlockSize = SstBlockSize::Block16Kib;
pub(super) const UID_BYTES: usize = 4;
/// Objects of the log that a start may have to read, for each shard: two requests for each.
pub(super) const LOG_OBJECTS_MAX: u64 = 1_000;
/// SlateDB's own bounds of memtables, in its own count, which is less than the memory in use: ours
/// are reached first (`write_memory.rs`).
const MEMTABLES_MAX: usize = 8;
/// Shards whose compactors look for orders once a second; of more, each looks less often, so that they ask the store as often together.
const SHARDS_A_SECOND: u64 = 4;
/// SlateDB's default.
const ORDERS_LOOKED_FOR_MAX: u64 = 5;
/// Memory for blocks that merges of all shards have read ahead.
const MERGE_BYTES: u64 = 64 << 20;
/// Blocks are unpacked when they are read, to twice their size or more.
const MERGE_UNPACKED: u64 = 2;
/// A reader may hold tables that were merged since for so long.
const TABLES_KEPT: Duration = Duration::from_hours(1);
/// A writer that slept for less cannot take the name of a log object again.
pub(super) const LOG_KEPT: Duration = Duration::from_hours(24);

/// Least bytes that a merge reads ahead of each of its inputs at a time: with single blocks each
/// would need a request.
const MERGE_READ_BYTES: std::ops::RangeInclusive<u64> = 128 << 10..=1 << 20;
/// Tables and runs that one merge reads: eight of the first level, or as many runs.
const MERGE_INPUTS: u64 = 16;
const MERGE_READS_AHEAD: u64 = 2;
/// At a time, of a shard.
const MERGES_MAX: u64 = 2;
/// That a merge makes. The index and the filter of a table are read in one piece each: of this, less than a megabyte.
const TABLE_BYTES_MAX: usize = 64 << 20;
const PARTS_FOR_INDEXES: usize = 2;

pub(super) fn of(memtable_bytes: u64) -> Settings {
    let memtable_bytes = usize::try_from(memtable_bytes).unwrap_or(usize::MAX / 8).max(1 << 20);
    Settings {
        // The committer flushes the log when there is something: a timer would cost a lone writer half of its period.
        flush_interval: None,
        // The writer learns of merged tables by it; the log determines the owner of the database.
        manifest_poll_interval: Duration::from_secs(2),
        l0_sst_size_bytes: memtable_bytes * SHARE_OF_A_MEMTABLE as usize,
        max_unflushed_bytes: memtable_bytes * MEMTABLES_MAX,
        // The compactor is given to the builder (`merges`).
        compactor_options: None,
        // Counted in each segment, that is in each partition of up to 64.
        l0_max_ssts_per_key: 8,
        l0_max_ssts: 8 * 64,
        // Without it a gateway that compresses by itself unpacks megabytes for each block.
        compression_codec: Some(CompressionCodec::Lz4),
        // The collector is given to the builder (`collector`).
        garbage_collector_options: None,
        ..Settings::default()
    }
}

pub(super) fn collector(log_kept: Duration) -> GarbageCollectorOptions {
    let kept = |min_age| Some(GarbageCollectorDirectoryOptions { min_age, ..Default::default() });
    GarbageCollectorOptions {
        compacted_options: kept(TABLES_KEPT),
        wal_options: kept(log_kept.max(LOG_KEPT)),
        // Fences are never collected: they keep out a writer that slept longer than anything else is kept.
        wal_fence_options: None,
        ..GarbageCollectorOptions::default()
    }
}

/// Merges hold in memory the blocks that they have read ahead of each input. By SlateDB's defaults
/// that may be half a gigabyte for each shard.
pub(super) fn merges(shards: u16) -> CompactorOptions {
    let shards = u64::from(shards.max(1));
    let of_a_read = MERGE_BYTES / MERGE_UNPACKED / shards / (MERGES_MAX * MERGE_INPUTS * MERGE_READS_AHEAD);
    let of_a_read = of_a_read.clamp(*MERGE_READ_BYTES.start(), *MERGE_READ_BYTES.end());
    CompactorOptions {
        // A partition is dropped by an order to the compactor, which looks for orders so often: four small requests each time.
        poll_interval: Duration::from_secs((shards / SHARDS_A_SECOND).clamp(1, ORDERS_LOOKED_FOR_MAX)),
        max_concurrent_compactions: MERGES_MAX as usize,
        worker: Some(CompactionWorkerOptions {
            max_concurrent_compactions: MERGES_MAX as usize,
            max_fetch_tasks: MERGE_READS_AHEAD as usize,
            bytes_to_fetch: of_a_read as usize,
            max_subcompactions: 1,
            max_sst_size: TABLE_BYTES_MAX,
            ..CompactionWorkerOptions::default()
        }),
        ..CompactorOptions::default()
    }
}

/// Cached blocks of the tables of all shards of a process.
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

/// Half of blocks, half of indexes and filters, so that neither pushes the other out.
///
/// Each read asks the filters of several tables, and the index of one. Without them in memory it
/// fetches megabytes instead of a block. They take about a hundredth of the data; a block of rows
/// that are read one by one holds fifteen that no client asked for.
pub(super) fn cache(bytes: u64) -> Arc<dyn DbCache> {
    let blocks = FoyerCacheOptions { max_capacity: bytes - bytes / 2, ..FoyerCacheOptions::default() };
    // Each part has its own bound: with a part for each of many processors no index would fit.
    let of_tables = FoyerCacheOptions { max_capacity: bytes / 2, shards: PARTS_FOR_INDEXES };
    let of = |options| -> Option<Arc<dyn DbCache>> { Some(Arc::new(FoyerCache::new_with_opts(options))) };
    let cache = SplitCache::new().with_block_cache(of(blocks)).with_meta_cache(of(of_tables));
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
