//! Commits on their way to the committer, in their order, and how they are cut into groups.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use shardlake_stdx::UnderWay;
use tokio::sync::{Notify, oneshot};

use crate::turns::{LARGE_ROWS_IN_FLIGHT, RowsTurn};
use crate::{Batch, Seq, StorageError};

/// Bytes of one group; a larger queue is written in several.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Rows of one group, unless it is a single commit.
pub(crate) const GROUP_ROWS_MAX: usize = LARGE_ROWS_IN_FLIGHT;

pub(crate) struct Queued {
    pub seq: Seq,
    pub batch: Batch,
    pub done: oneshot::Sender<Result<(), StorageError>>,
    /// Of a large commit, until it is written.
    pub turn: Option<RowsTurn>,
    /// Until readers see the commit.
    pub under_way: Option<UnderWay>,
}

/// Of commits that are applied, or about to be, and not shown. Where they fail instead of being
/// shown, a restart may show them all the same.
#[derive(Default)]
pub(crate) struct Unshown(Vec<UnderWay>);

impl Unshown {
    pub fn add(&mut self, commit: Option<UnderWay>) {
        self.0.extend(commit);
    }

    pub fn append(&mut self, mut other: Unshown) {
        self.0.append(&mut other.0);
    }

    /// Readers see the commits from now on.
    pub fn shown(mut self) {
        self.0.clear();
    }
}

impl Drop for Unshown {
    fn drop(&mut self) {
        self.0.drain(..).for_each(UnderWay::leave_in_doubt);
    }
}

/// Who writes a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupWriter {
    Committer,
    /// A thread of a runtime, which writes small commits only.
    Leader,
}

/// Wakes the committer.
pub(crate) enum Bell {
    Thread(Condvar),
    Task(Notify),
}

impl Bell {
    fn ring(&self) {
        match self {
            Bell::Thread(bell) => bell.notify_one(),
            Bell::Task(bell) => bell.notify_one(),
        }
    }
}

/// Commits on their way to the committer, bounded by number and size.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    bell: Bell,
    commits_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct QueueState {
    queued: VecDeque<Queued>,
    size_bytes: usize,
    last_seq: Seq,
    closed: bool,
    /// Small commits have come since the last group with a large one was taken.
    has_small_since: bool,
    /// The committer was called for something else than a commit that finds the queue empty. Kept until it looks, since
    /// a notification reaches only a thread that waits at that moment.
    is_called: bool,
}

impl Queue {
    pub fn new(bell: Bell, commits_max: usize, bytes_max: usize) -> Self {
        Queue { state: Mutex::default(), bell, commits_max, bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Gives the commit its place in the order. With `quietly`, nobody is woken for a commit that finds the queue empty: the
    /// second value says that the caller has to see to it.
    pub fn push(&self, mut commit: Queued, quietly: bool) -> Result<(Seq, bool), StorageError> {
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
        state.has_small_since |= commit.turn.is_none();
        commit.seq = state.last_seq;
        state.size_bytes += size_bytes;
        let was_empty = state.queued.is_empty();
        state.queued.push_back(commit);
        let seq = state.last_seq;
        drop(state);
        if was_empty && !quietly {
            self.bell.ring();
        }
        Ok((seq, was_empty && quietly))
    }

    /// Has the committer look, now or after what it is doing: for commits, and whether a sync is due.
    pub fn call_committer(&self) {
        self.lock().is_called = true;
        self.bell.ring();
    }

    pub fn is_empty(&self) -> bool {
        self.lock().queued.is_empty()
    }

    /// Whether small commits have come since the last group with a large one was taken.
    pub fn has_small_since(&self) -> bool {
        self.lock().has_small_since
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.bell.ring();
    }

    /// Closes the queue and drops what is in it.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queued.clear();
    }

    /// Waits on the committer's thread for a commit, a call, or the end of `patience`. False when closed and empty.
    pub fn wait(&self, patience: Option<Duration>) -> bool {
        let Bell::Thread(bell) = &self.bell else { unreachable!("a task waits for `rung`") };
        let state = self.lock();
        let is_idle = |state: &mut QueueState| state.queued.is_empty() && !state.closed && !state.is_called;
        let mut state = match patience {
            None => bell.wait_while(state, is_idle).expect("nothing panics under this lock"),
            Some(patience) => {
                let waited = bell.wait_timeout_while(state, patience, is_idle);
                waited.expect("nothing panics under this lock").0
            }
        };
        state.is_called = false;
        !(state.closed && state.queued.is_empty())
    }

    /// The committer's task is woken, or was since it asked last.
    pub async fn rung(&self) {
        let Bell::Task(bell) = &self.bell else { unreachable!("a thread waits with `wait`") };
        bell.notified().await;
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The next group, perhaps empty. Call with [`Shared::writing`] held, so that groups are written in order.
    pub fn take_group(&self, writer: GroupWriter) -> Vec<Queued> {
        let mut state = self.lock();
        let mut group: Vec<Queued> = Vec::with_capacity(state.queued.len());
        let (mut size_bytes, mut rows) = (0, 0);
        let mut has_large = false;
        while let Some(commit) = state.queued.front() {
            let is_large = commit.turn.is_some();
            if is_large && writer == GroupWriter::Leader {
                break;
            }
            let (next_bytes, next_rows) = (commit.batch.size_bytes(), commit.batch.len());
            let is_full = size_bytes + next_bytes > GROUP_BYTES_MAX || rows + next_rows > GROUP_ROWS_MAX;
            // Small commits do not wait for the large one behind them.
            if !group.is_empty() && (is_full || (is_large && !has_large)) {
                break;
            }
            size_bytes += next_bytes;
            rows += next_rows;
            has_large |= is_large;
            group.extend(state.queued.pop_front());
        }
        state.size_bytes -= size_bytes;
        if has_large {
            state.has_small_since = !state.queued.is_empty();
        }
        group
    }
}
