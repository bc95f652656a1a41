//! Commits on their way to the committer, in their order, and how they are cut into groups.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use shardlake_stdx::{Clock, UnderWay};
use tokio::sync::{Notify, oneshot};

use crate::large_commits::{LARGE_ROWS_IN_FLIGHT, RowsPermit};
use crate::{Batch, Seq, StorageError};

/// Bytes of one group; a larger queue is written in several.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Rows of one group, unless it is a single commit.
pub(crate) const GROUP_ROWS_MAX: usize = LARGE_ROWS_IN_FLIGHT;

pub(crate) struct Queued {
    pub seq: Seq,
    pub batch: Batch,
    pub done: oneshot::Sender<Result<(), StorageError>>,
    /// Permit of a large commit, until the commit is written.
    pub turn: Option<RowsPermit>,
    /// Until readers see the commit.
    pub under_way: Option<UnderWay>,
    /// No client waits for it.
    pub is_patient: bool,
}

/// Tokens of commits that are applied, or about to be, and not shown. Where they fail instead of
/// being shown, a restart may show them all the same.
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

/// How long a patient commit waits for a commit with a waiting client.
const PATIENCE: Duration = Duration::from_millis(5);

/// The thread that writes a group.
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
    /// Queued commits that a client waits for.
    hurried: usize,
    /// When the oldest of the patient ones is to be written in any case, by the process's clock.
    patient_until: Option<Duration>,
    /// The committer was called for another reason than a commit that finds the queue empty. Kept
    /// until it looks, since a notification reaches only a thread that is waiting already.
    is_called: bool,
}

impl QueueState {
    /// Whether the committer has nothing to do now.
    fn is_idle(&self, now: Duration) -> bool {
        let is_patient = self.patient_until.is_none_or(|until| now < until);
        self.hurried == 0 && is_patient && !self.closed && !self.is_called
    }

    /// How long the committer may sleep. `None` is until it is woken.
    fn idle_for(&self, now: Duration, until: Option<Duration>) -> Option<Duration> {
        let until = [self.patient_until, until].into_iter().flatten().min()?;
        Some(until.saturating_sub(now))
    }

    fn assert_counted(&self) {
        let hurried = self.queued.iter().filter(|commit| !commit.is_patient).count();
        debug_assert_eq!(hurried, self.hurried, "hurried commits are counted");
        let has_patient = hurried < self.queued.len();
        debug_assert_eq!(has_patient, self.patient_until.is_some(), "a patient commit has its end");
    }
}

impl Queue {
    pub fn new(bell: Bell, commits_max: usize, bytes_max: usize) -> Self {
        Queue { state: Mutex::default(), bell, commits_max, bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Gives the commit its place in the order. With `quietly`, a commit wakes no thread if no
    /// queued commit has a waiting client. The second value is then `true`, and the caller has to
    /// write the commit or call the committer.
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
        let (is_patient, had_patience) = (commit.is_patient, state.patient_until.is_some());
        // The queued patient commits have woken no thread.
        let was_quiet = state.hurried == 0;
        if is_patient {
            let until = Clock::System.elapsed() + PATIENCE;
            state.patient_until.get_or_insert(until);
        } else {
            state.hurried += 1;
        }
        state.queued.push_back(commit);
        state.assert_counted();
        let seq = state.last_seq;
        drop(state);
        if is_patient {
            // So that the committer learns when it is due.
            if !had_patience {
                self.bell.ring();
            }
            return Ok((seq, false));
        }
        if was_quiet && !quietly {
            self.bell.ring();
        }
        Ok((seq, was_quiet && quietly))
    }

    /// Has the committer look, now or after its current work: for commits, and whether a sync is
    /// due.
    pub fn call_committer(&self) {
        self.lock().is_called = true;
        self.bell.ring();
    }

    pub fn is_empty(&self) -> bool {
        self.lock().queued.is_empty()
    }

    /// Whether a client waits for a queued commit.
    pub fn has_hurried(&self) -> bool {
        self.lock().hurried > 0
    }

    /// Whether small commits have come since the last group with a large one was taken.
    pub fn has_small_since(&self) -> bool {
        self.lock().has_small_since
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.bell.ring();
    }

    /// Closes the queue and drops all queued commits.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queued.clear();
        (state.hurried, state.patient_until) = (0, None);
        state.size_bytes = 0;
    }

    /// Waits on the committer's thread for a commit that is due, a call, or the end of `patience`. False when closed and empty.
    pub fn wait(&self, patience: Option<Duration>) -> bool {
        let Bell::Thread(bell) = &self.bell else { unreachable!("a task waits for `rung`") };
        let mut now = Clock::System.elapsed();
        let until = patience.map(|patience| now + patience);
        let mut state = self.lock();
        while state.is_idle(now) && until.is_none_or(|until| now < until) {
            state = match state.idle_for(now, until) {
                None => bell.wait(state).expect("nothing panics under this lock"),
                Some(idle) => bell.wait_timeout(state, idle).expect("nothing panics under this lock").0,
            };
            now = Clock::System.elapsed();
        }
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
            let (is_large, commit_is_patient) = (commit.turn.is_some(), commit.is_patient);
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
            state.hurried -= usize::from(!commit_is_patient);
            group.extend(state.queued.pop_front());
        }
        if state.queued.len() == state.hurried {
            state.patient_until = None;
        }
        state.assert_counted();
        assert!(state.size_bytes >= size_bytes, "the bytes of each queued commit are counted");
        state.size_bytes -= size_bytes;
        assert!(!state.queued.is_empty() || state.size_bytes == 0, "an empty queue holds no bytes");
        debug_assert!(
            group.is_sorted_by(|left, right| left.seq < right.seq),
            "the commits of a group are in the order of their numbers"
        );
        if has_large {
            state.has_small_since = !state.queued.is_empty();
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(Bell::Thread(Condvar::new()), 16, 1 << 20)
    }

    fn commit(is_patient: bool) -> Queued {
        let mut batch = Batch::new();
        batch.put(&b"key"[..], &b"value"[..]);
        Queued { seq: 0, batch, done: oneshot::channel().0, turn: None, under_way: None, is_patient }
    }

    fn seqs(group: &[Queued]) -> Vec<Seq> {
        group.iter().map(|commit| commit.seq).collect()
    }

    #[test]
    fn patient_commit_is_due_at_its_end_and_not_before() {
        let queue = queue();
        queue.push(commit(true), false).expect("there is room");
        let first_until = queue.lock().patient_until.expect("it has an end");
        queue.push(commit(true), false).expect("there is room");
        let state = queue.lock();
        assert_eq!(state.patient_until, Some(first_until), "the oldest one counts");
        let before = first_until - PATIENCE;
        assert!(state.is_idle(before));
        assert_eq!(state.idle_for(before, None), Some(PATIENCE));
        assert_eq!(state.idle_for(before, Some(before + PATIENCE / 2)), Some(PATIENCE / 2));
        assert!(!state.is_idle(first_until));
        drop(state);
        assert_eq!(seqs(&queue.take_group(GroupWriter::Committer)), [1, 2]);
        assert!(queue.lock().is_idle(first_until) && queue.lock().idle_for(first_until, None).is_none());
    }

    #[test]
    fn hurried_commit_takes_patient_ones_along_in_their_order() {
        let queue = queue();
        assert_eq!(queue.push(commit(true), true).expect("there is room"), (1, false));
        assert!(!queue.has_hurried());
        // The patient commit woke no thread, so this writer has to write both.
        assert_eq!(queue.push(commit(false), true).expect("there is room"), (2, true));
        assert_eq!(queue.push(commit(false), true).expect("there is room"), (3, false));
        assert!(!queue.lock().is_idle(Duration::ZERO) && queue.has_hurried());
        assert_eq!(seqs(&queue.take_group(GroupWriter::Leader)), [1, 2, 3]);
        assert!(queue.is_empty() && !queue.has_hurried());
    }

    #[test]
    fn closed_or_called_queue_waits_for_nothing() {
        let (closed, called) = (queue(), queue());
        for queue in [&closed, &called] {
            queue.push(commit(true), false).expect("there is room");
        }
        closed.close();
        called.call_committer();
        assert!(!closed.lock().is_idle(Duration::ZERO) && !called.lock().is_idle(Duration::ZERO));
        assert!(closed.wait(None), "what is in it is to be written");
        called.abandon();
        assert!(called.is_empty() && !called.wait(None));
    }
}
