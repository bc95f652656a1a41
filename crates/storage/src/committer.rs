//! Group commit: one thread takes everything queued, writes it as one engine batch, syncs once, and wakes the writers.
//!
//! Writers that arrive during a sync form the next group, so that the number of syncs does not grow with the number of
//! writers. A failure poisons the shard: this group's writers and all later ones get an error, and none of them was ever
//! acknowledged.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use futures::executor::block_on;
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

    /// The next group; waits for one, at most for `patience`. `None` when closed and empty.
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
}

type Writers = Vec<oneshot::Sender<Result<(), StorageError>>>;

impl Committer {
    pub fn new(shared: Arc<Shared>) -> Self {
        Committer { shared }
    }

    pub fn run(self) {
        let mut unsynced = false;
        loop {
            let patience = unsynced.then_some(ASYNC_SYNC_INTERVAL);
            let Some(group) = self.shared.queue.next_group(patience) else { break };
            if group.is_empty() {
                unsynced = false;
                let _ = self.sync(self.shared.applied.load(Ordering::Acquire));
                continue;
            }
            let last = group.last().map(|commit| commit.seq).expect("the group is not empty");
            let (batches, writers): (Vec<Batch>, Writers) =
                group.into_iter().map(|commit| (commit.batch, commit.done)).unzip();
            let result = self.write(batches, last);
            unsynced = self.shared.durability == Durability::Async;
            for writer in writers {
                // A writer that went away is no reason to stop.
                let _ = writer.send(result.clone());
            }
        }
        if unsynced {
            let _ = self.sync(self.shared.applied.load(Ordering::Acquire));
        }
    }

    fn write(&self, batches: Vec<Batch>, last: Seq) -> Result<(), StorageError> {
        let shared = &self.shared;
        if let Some(reason) = shared.poisoned.get() {
            return Err(StorageError::Poisoned { reason: reason.clone() });
        }
        block_on(shared.engine.apply(batches)).map_err(|error| shared.poison(&error))?;
        shared.applied.store(last, Ordering::Release);
        match shared.durability {
            Durability::Async => Ok(()),
            Durability::Sync | Durability::Memory => self.sync(last),
        }
    }

    fn sync(&self, seq: Seq) -> Result<(), StorageError> {
        block_on(self.shared.engine.sync()).map_err(|error| self.shared.poison(&error))?;
        self.shared.durable.send_replace(seq);
        Ok(())
    }
}
