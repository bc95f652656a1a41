//! How a shard is opened.

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A commit is acknowledged when it is on stable storage.
    #[default]
    Sync,
    /// A commit is acknowledged when it is visible; the last tenth of a second may be lost in a crash.
    Async,
    /// Nothing survives the process.
    Memory,
}

#[derive(Debug, Clone)]
pub enum EngineKind {
    Memory,
    Local { directory: PathBuf },
}

#[derive(Debug, Clone)]
pub struct ShardOptions {
    pub engine: EngineKind,
    /// The directory is known to have had a shard: opening it makes none.
    pub must_exist: bool,
    /// Epoch of this owner: refused with [`crate::StorageError::Fenced`] where the shard was opened
    /// with a higher one. Without an epoch, the owner is the process that has locked the directory.
    pub epoch: Option<u64>,
    pub durability: Durability,
    /// Bytes kept in memory for reads: three eighths of it rows that are read again (`row_cache.rs`),
    /// a quarter ranges that are scanned again (`range_cache.rs`), the rest blocks of the engine.
    pub cache_bytes: u64,
    /// Bytes of writes kept in memory before they are sorted to disk; a few of these can exist at once.
    pub memtable_bytes: u64,
    /// Sorted files that are kept open; others are opened for each block that is read of them.
    pub tables_open_max: usize,
    /// A read that takes so long is better done on a thread that may block than in the call. Zero: every read is.
    pub slow_read: Duration,
    /// Commits that may be queued; more are refused with [`crate::StorageError::Overloaded`].
    pub queue_commits_max: usize,
    pub queue_bytes_max: usize,
}

impl ShardOptions {
    /// The part of the cache that rows have which are read again.
    pub fn hot_rows_bytes(&self) -> u64 {
        self.cache_bytes / 8 * 3
    }

    /// The part of the cache that ranges have which are scanned again.
    pub fn hot_ranges_bytes(&self) -> u64 {
        self.cache_bytes / 4
    }

    /// Memory of an engine for its blocks.
    pub fn block_cache_bytes(&self) -> u64 {
        self.cache_bytes - self.hot_rows_bytes() - self.hot_ranges_bytes()
    }

    pub fn memory() -> Self {
        ShardOptions { engine: EngineKind::Memory, durability: Durability::Memory, ..ShardOptions::local("") }
    }

    pub fn local(directory: impl Into<PathBuf>) -> Self {
        ShardOptions {
            engine: EngineKind::Local { directory: directory.into() },
            must_exist: false,
            epoch: None,
            durability: Durability::Sync,
            cache_bytes: 256 * 1024 * 1024,
            memtable_bytes: 32 * 1024 * 1024,
            tables_open_max: 256,
            slow_read: Duration::from_micros(500),
            queue_commits_max: 8192,
            queue_bytes_max: 256 * 1024 * 1024,
        }
    }
}
