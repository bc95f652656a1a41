//! State that the handles of a shard and its committer share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use shardlake_stdx::DurationHistogram;
use tokio::sync::{Notify, watch};

use crate::background::Foreground;
use crate::large_commits::LargeCommits;
use crate::queue::{Bell, Queue};
use crate::range_cache::RangeCache;
use crate::row_cache::RowCache;
use crate::sync_under_way::SyncUnderWay;
use crate::view::Shown;
use crate::wal_archive::History;
use crate::{Batch, Durability, Engine, Seq, ShardOptions, StorageError};

/// State of the thread that writes.
#[derive(Default)]
pub(crate) struct Writing {
    /// Since when something applied waits for a sync, with [`Durability::Async`].
    pub unsynced_since: Option<Duration>,
}

/// State shared by handles and the committer.
pub(crate) struct Shared {
    pub shown: Shown,
    pub hot: Arc<RowCache>,
    pub range_cache: Arc<RangeCache>,
    pub engine: Arc<dyn Engine>,
    /// As the engine reports; asked with each commit.
    pub answers_later: bool,
    pub durability: Durability,
    pub queue: Queue,
    pub applied: AtomicU64,
    pub durable: watch::Sender<Seq>,
    /// The last commit whose sync a caller waits for.
    pub sync_wanted: AtomicU64,
    pub poisoned: OnceLock<StorageError>,
    /// Over an engine that answers later.
    pub sync_under_way: SyncUnderWay,
    /// Held by the thread that takes a group from the queue and writes it.
    pub writing: Mutex<Writing>,
    /// Held over an engine that answers later, while a group is applied.
    pub applying: tokio::sync::Mutex<()>,
    /// The last group had one member and was written quickly: a writer may as well write its own.
    pub lone: AtomicBool,
    pub large_commits: LargeCommits,
    pub foreground: Arc<Foreground>,
    /// Where the log is kept: [`crate::Shard::keep_history`].
    pub history: OnceLock<History>,
    /// Durations of the engine's syncs.
    pub syncs: DurationHistogram,
}

impl Shared {
    pub fn new(engine: Arc<dyn Engine>, options: &ShardOptions) -> Shared {
        let answers_later = engine.answers_later();
        let bell = if answers_later { Bell::Task(Notify::new()) } else { Bell::Thread(Condvar::new()) };
        Shared {
            shown: Shown::new(&*engine),
            hot: Arc::new(RowCache::new(options.hot_rows_bytes())),
            range_cache: Arc::new(RangeCache::new(options.hot_ranges_bytes())),
            engine,
            answers_later,
            durability: options.durability,
            queue: Queue::new(bell, options.queue_commits_max, options.queue_bytes_max),
            applied: AtomicU64::new(0),
            durable: watch::Sender::new(0),
            sync_wanted: AtomicU64::new(0),
            poisoned: OnceLock::new(),
            sync_under_way: SyncUnderWay::default(),
            writing: Mutex::default(),
            applying: tokio::sync::Mutex::default(),
            lone: AtomicBool::new(false),
            large_commits: LargeCommits::default(),
            foreground: Arc::default(),
            history: OnceLock::new(),
            syncs: DurationHistogram::default(),
        }
    }

    /// Records the first failure, and returns the error for later writers.
    pub fn poison(&self, reason: &StorageError) -> StorageError {
        let error = self.poisoned.get_or_init(|| {
            if let StorageError::Fenced { .. } | StorageError::NotLeased = reason {
                tracing::warn!(%reason, "a shard refuses writes from now on: it is not this process's any more");
                return reason.clone();
            }
            if let StorageError::Ended { .. } = reason {
                tracing::error!(%reason, "a shard refuses writes from now on");
                return reason.clone();
            }
            tracing::error!(%reason, "a shard refuses writes from now on: free space or replace the disk, then restart");
            StorageError::Poisoned { reason: reason.to_string().into() }
        });
        // Tasks that wait for durability must check again.
        self.durable.send_modify(|_| {});
        error.clone()
    }

    pub fn check(&self) -> Result<(), StorageError> {
        self.poisoned.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Marks the keys of a group in the caches before the group is applied.
    pub fn mark_hot(&self, batches: &[Batch], last: Seq) {
        self.hot.mark(batches, last);
        self.range_cache.mark(batches, last);
    }

    pub fn lock_writing(&self) -> MutexGuard<'_, Writing> {
        // After a panic the shard is poisoned, which every user of the lock finds out.
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has everything up to `seq` synced without waiting for the interval of [`Durability::Async`].
    pub fn want_sync(&self, seq: Seq) {
        self.sync_wanted.fetch_max(seq, Ordering::AcqRel);
        self.queue.call_committer();
    }

    pub fn is_sync_wanted(&self) -> bool {
        self.sync_wanted.load(Ordering::Acquire) > *self.durable.borrow()
    }

    /// Returns when no thread writes any more.
    pub fn wait_for_writer(&self) {
        drop(self.lock_writing());
    }
}
