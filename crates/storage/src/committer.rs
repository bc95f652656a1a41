//! Group commit: one thread takes everything queued, writes it as one engine batch, syncs once, and wakes the writers.
//!
//! Writers that arrive during a sync form the next group, so that the number of syncs does not grow with the number of
//! writers. A failure poisons the shard: this group's writers and all later ones get an error, and none of them was ever
//! acknowledged. The order of events for one group: applied (readers see it), `applied` moves, synced, `durable` moves,
//! writers are woken in the order of their commits.
//!
//! A thread of its own, because a sync of a local disk blocks, and because the time between a writer's `commit` and the
//! sync is most of a lone writer's latency.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use futures::executor::block_on;
use shardlake_stdx::Clock;
use tokio::sync::oneshot;

use crate::shard::Shared;
use crate::{Batch, Durability, Seq, StorageError};

/// Bytes of one group; a larger queue is written in several.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long an acknowledged commit may stay undurable with [`Durability::Async`].
const ASYNC_SYNC_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Queued {
    pub seq: Seq,
    pub batch: Batch,
    pub done: oneshot::Sender<Result<(), StorageError>>,
}

/// Commits on their way to the committer, bounded by number and size.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
    commits_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct QueueState {
    queued: VecDeque<Queued>,
    size_bytes: usize,
    last_seq: Seq,
    closed: bool,
}

impl Queue {
    pub fn new(commits_max: usize, bytes_max: usize) -> Self {
        Queue { state: Mutex::default(), filled: Condvar::new(), commits_max, bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Gives the commit its place in the order.
    pub fn push(&self, mut commit: Queued) -> Result<Seq, StorageError> {
        let mut state = self.lock();
        if state.closed {
            return Err(StorageError::Closed);
        }
        let size_bytes = commit.batch.size_bytes();
        let is_full =
            state.queued.len() >= self.commits_max || state.size_bytes + size_bytes > self.bytes_max;
        if is_full && !state.queued.is_empty() {
            return Err(StorageError::Overloaded);
        }
        state.last_seq += 1;
        commit.seq = state.last_seq;
        state.size_bytes += size_bytes;
        let was_empty = state.queued.is_empty();
        state.queued.push_back(commit);
        let seq = state.last_seq;
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(seq)
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// Closes the queue and drops what is in it.
    fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queued.clear();
    }

    /// The next group; waits for one, at most for `patience`, and is empty after that. `None` when closed and empty.
    fn next_group(&self, patience: Option<Duration>) -> Option<Vec<Queued>> {
        let mut state = self.lock();
        while state.queued.is_empty() {
            if state.closed {
                return None;
            }
            state = match patience {
                None => self.filled.wait(state).expect("nothing panics under this lock"),
                Some(patience) => {
                    let (state, timeout) =
                        self.filled.wait_timeout(state, patience).expect("nothing panics under this lock");
                    if timeout.timed_out() {
                        return Some(Vec::new());
                    }
                    state
                }
            };
        }
        let mut group = Vec::with_capacity(state.queued.len());
        let mut size_bytes = 0;
        while let Some(commit) = state.queued.front() {
            let next = commit.batch.size_bytes();
            if !group.is_empty() && size_bytes + next > GROUP_BYTES_MAX {
                break;
            }
            size_bytes += next;
            group.extend(state.queued.pop_front());
        }
        state.size_bytes -= size_bytes;
        Some(group)
    }
}

pub(crate) struct Committer {
    shared: Arc<Shared>,
    clock: Clock,
    /// Since when something applied waits for a sync, with [`Durability::Async`].
    unsynced_since: Option<Duration>,
}

impl Committer {
    pub fn new(shared: Arc<Shared>) -> Self {
        Committer { shared, clock: Clock::System, unsynced_since: None }
    }

    /// Runs until the queue is closed and empty.
    pub fn run(mut self) {
        while let Some(group) = self.shared.queue.next_group(self.patience()) {
            if !group.is_empty() {
                self.commit(group);
            }
            if self.patience().is_some_and(|patience| patience.is_zero()) {
                self.sync_unsynced();
            }
        }
        self.sync_unsynced();
    }

    /// How long the next sync can wait; no limit when there is nothing to sync.
    fn patience(&self) -> Option<Duration> {
        let waited = self.clock.elapsed().saturating_sub(self.unsynced_since?);
        Some(ASYNC_SYNC_INTERVAL.saturating_sub(waited))
    }

    fn commit(&mut self, group: Vec<Queued>) {
        let last = group.last().map(|commit| commit.seq).expect("the group is not empty");
        let (batches, writers): (Vec<Batch>, Vec<_>) =
            group.into_iter().map(|commit| (commit.batch, commit.done)).unzip();
        let result = self.write(batches, last);
        for writer in writers {
            // A writer that went away is no reason to stop.
            let _ = writer.send(result.clone());
        }
    }

    fn write(&mut self, batches: Vec<Batch>, last: Seq) -> Result<(), StorageError> {
        let shared = &self.shared;
        shared.check()?;
        block_on(shared.engine.apply(batches)).map_err(|error| shared.poison(&error))?;
        shared.applied.store(last, Ordering::Release);
        match shared.durability {
            Durability::Sync | Durability::Memory => self.sync(),
            Durability::Async => {
                let now = self.clock.elapsed();
                self.unsynced_since.get_or_insert(now);
                Ok(())
            }
        }
    }

    /// A failure has no writer to tell: the poison tells the next one.
    fn sync_unsynced(&mut self) {
        if self.unsynced_since.take().is_some() && self.shared.check().is_ok() {
            let _ = self.sync();
        }
    }

    fn sync(&self) -> Result<(), StorageError> {
        let shared = &self.shared;
        let applied = shared.applied.load(Ordering::Acquire);
        block_on(shared.engine.sync()).map_err(|error| shared.poison(&error))?;
        shared.durable.send_replace(applied);
        Ok(())
    }
}

impl Drop for Committer {
    /// Nobody would answer the queued commits after a panic in an engine.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.poison(&StorageError::io("the storage engine panicked"));
            self.shared.queue.abandon();
        }
    }
}
