//! Work, caches and health of a shard in numbers, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_stdx::{DurationCounts, Timestamp};

/// A power of two. Threads that look up different keys add to different counters.
const STRIPES: usize = 16;
const _: () = assert!(STRIPES.is_power_of_two());

/// A cache since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheState {
    pub hits: u64,
    pub misses: u64,
    pub bytes: u64,
    pub bytes_max: u64,
}

/// Work of an engine that waits or is done in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionState {
    /// Memtables that wait until they are sorted into tables.
    pub memtables_waiting: u64,
    /// Tables that overlap and wait until they are merged.
    pub first_level_tables: u64,
    pub active: u64,
    pub completed: u64,
    pub duration: Duration,
}

/// An engine at one time. Members are `None` where the engine has no such part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineState {
    /// Allocated bytes of the journals that a start would replay.
    pub journal_bytes: Option<u64>,
    pub block_cache: Option<CacheState>,
    pub compaction: Option<CompactionState>,
    /// The earliest time to which the archived log reaches back.
    pub log_begins: Option<Timestamp>,
}

/// A shard at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardMetrics {
    pub engine: EngineState,
    pub row_cache: CacheState,
    pub range_cache: CacheState,
    /// Durations of the syncs to stable storage.
    pub syncs: DurationCounts,
    pub is_poisoned: bool,
}

/// Hits and misses of a cache that many threads look into at once.
#[derive(Debug, Default)]
pub(crate) struct LookupCounts([Stripe; STRIPES]);

/// A cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl LookupCounts {
    /// `hash` is of the key.
    pub fn note(&self, hash: u64, is_hit: bool) {
        let stripe = &self.0[(hash >> 32) as usize % STRIPES];
        let counter = if is_hit { &stripe.hits } else { &stripe.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn state(&self, bytes: u64, bytes_max: u64) -> CacheState {
        let sum =
            |of: fn(&Stripe) -> &AtomicU64| self.0.iter().map(|one| of(one).load(Ordering::Relaxed)).sum();
        // A cache may exceed its bound by an entry while it drops others.
        debug_assert!(bytes_max > 0 || bytes == 0, "a cache without memory has no entries");
        CacheState { hits: sum(|one| &one.hits), misses: sum(|one| &one.misses), bytes, bytes_max }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Batch, Shard, ShardOptions};

    #[tokio::test]
    async fn lookups_and_syncs_are_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let shard = Shard::open(ShardOptions::local(directory.path())).await.expect("it opens");
        let before = shard.metrics();
        let mut batch = Batch::new();
        batch.put("key", "value");
        shard.commit(batch).expect("queued").await.expect("stored");
        for _ in 0..3 {
            let found = shard.get_hot(b"key").resolve().await.expect("it is read");
            assert!(found.is_some());
        }
        let metrics = shard.metrics();
        assert_eq!((metrics.row_cache.misses, metrics.row_cache.hits), (1, 2), "{metrics:?}");
        assert!(metrics.row_cache.bytes > 0 && metrics.row_cache.bytes <= metrics.row_cache.bytes_max);
        assert!(metrics.syncs.count > before.syncs.count, "{:?}", metrics.syncs);
        assert!(metrics.engine.journal_bytes.is_some_and(|bytes| bytes > 0), "{metrics:?}");
        assert!(metrics.engine.block_cache.is_some() && metrics.engine.compaction.is_some());
        assert_eq!((metrics.engine.log_begins, metrics.is_poisoned), (None, false));
        shard.close().await.expect("it closes");
    }
}
