//! Group commit: one thread takes everything queued, writes it as one engine batch, syncs once, and wakes the writers.
//!
//! Writers that arrive during a sync form the next group, so that the number of syncs does not grow with the number of
//! writers. A failure poisons the shard: this group's writers and all later ones get an error, and none of them was ever
//! acknowledged. The order of events for one group: applied, `applied` moves, synced, shown to readers (`view.rs`), `durable`
//! moves, writers are woken in the order of their commits. With [`Durability::Async`] readers see it as soon as it is applied.
//!
//! A commit that no writer waits for is patient (`queue.rs`): it joins the next group with a commit
//! that a writer waits for, or is a group by itself after a short delay. So background work adds
//! rows to the syncs of clients, and hardly a sync of its own.
//!
//! A thread of its own does this, because a sync of a local disk blocks. Handing a commit to it and
//! back costs two thread wake-ups, which a lone writer on a fast disk feels as half its latency; so
//! while groups have one member and syncs are short, the writer commits its own group on its own
//! thread ([`lead`]). The thread that writes holds [`Shared::writing`], takes the group under this
//! lock, and so keeps the order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shardlake_stdx::Clock;

use crate::large_commits::RowsPermit;
use crate::queue::{GroupWriter, Queued, Unshown};
use crate::shared::{Shared, Writing};
use crate::view::View;
use crate::wal_archive::History;
use crate::{Answer, Batch, Durability, Seq, StorageError};

/// How long an acknowledged commit may stay undurable with [`Durability::Async`].
pub(crate) const ASYNC_SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// A writer commits its own group only while syncs are shorter than this: they hold up a thread of the runtime.
const LEAD_SYNC_MAX: Duration = Duration::from_millis(1);

pub(crate) struct Committer {
    shared: Arc<Shared>,
}

impl Committer {
    pub fn new(shared: Arc<Shared>) -> Self {
        Committer { shared }
    }

    /// Runs until the queue is closed and empty.
    pub fn run(self) {
        let shared = &*self.shared;
        loop {
            // Not held while waiting: the guard would keep writers from leading.
            let patience_now = patience(&shared.lock_writing());
            if !shared.queue.wait(patience_now) {
                break;
            }
            let mut writing = shared.lock_writing();
            let group = shared.queue.take_group(GroupWriter::Committer);
            if !group.is_empty() {
                commit(shared, &mut writing, group);
            }
            let is_due = patience(&writing).is_some_and(|patience| patience.is_zero());
            if is_due || shared.is_sync_wanted() {
                sync_unsynced(shared, &mut writing);
            }
        }
        sync_unsynced(shared, &mut shared.lock_writing());
    }
}

/// Commits the next group on the caller's thread, if no other thread is writing and the engine is
/// quick. Otherwise, and for the remaining commits, calls the committer. With [`Durability::Async`]
/// the committer is called as well, once for all commits until the next sync: it has to learn when
/// the sync is due.
pub(crate) fn lead(shared: &Shared) {
    // Asked again: the engine may be held up since the commit was queued, and this thread is a
    // runtime's.
    if !shared.engine.may_be_held_up()
        && let Ok(mut writing) = shared.writing.try_lock()
    {
        let was_synced = writing.unsynced_since.is_none();
        let group = shared.queue.take_group(GroupWriter::Leader);
        if !group.is_empty() {
            commit(shared, &mut writing, group);
        }
        let leaves_a_sync = was_synced && writing.unsynced_since.is_some();
        drop(writing);
        if !shared.queue.has_hurried() && !leaves_a_sync {
            return;
        }
    }
    shared.queue.call_committer();
}

/// How long the next sync can wait; no limit when there is nothing to sync.
fn patience(writing: &Writing) -> Option<Duration> {
    let waited = Clock::System.elapsed().saturating_sub(writing.unsynced_since?);
    Some(ASYNC_SYNC_INTERVAL.saturating_sub(waited))
}

fn commit(shared: &Shared, writing: &mut Writing, group: Vec<Queued>) {
    let _on_panic = PoisonOnPanic(shared);
    let started = Clock::System.elapsed();
    let hurried = group.iter().filter(|commit| !commit.is_patient).count();
    let last = group.last().map(|commit| commit.seq).expect("the group is not empty");
    let (mut batches, mut writers) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
    let (mut turns, mut unshown) = (Vec::new(), Unshown::default());
    for commit in group {
        batches.push(commit.batch);
        writers.push(commit.done);
        turns.extend(commit.turn);
        unshown.add(commit.under_way);
    }
    let result = write(shared, writing, batches, last);
    match &result {
        Ok(()) => unshown.shown(),
        Err(_) => drop(unshown),
    }
    let took = Clock::System.elapsed() - started;
    if hurried > 0 {
        shared.lone.store(hurried == 1 && took < LEAD_SYNC_MAX, Ordering::Relaxed);
    }
    if !turns.is_empty() {
        shared.large_commits.rest_after(took);
        if turns.iter().any(RowsPermit::is_oversize) && shared.queue.has_small_since() {
            shared.large_commits.rest_after_oversize(took);
        }
        drop(turns);
    }
    for writer in writers {
        // A writer that went away is no reason to stop.
        let _ = writer.send(result.clone());
    }
}

fn write(
    shared: &Shared,
    writing: &mut Writing,
    mut batches: Vec<Batch>,
    last: Seq,
) -> Result<(), StorageError> {
    shared.check()?;
    batches.extend(shared.history.get().map(History::stamp));
    let applied = shared.applied.load(Ordering::Acquire);
    assert!(last > applied, "groups are applied in the order of their numbers");
    assert!(*shared.durable.borrow() <= applied, "only applied commits are durable");
    shared.mark_hot(&batches, last);
    shared.shown.hold();
    in_the_call(shared.engine.apply(batches)).map_err(|error| shared.poison(&error))?;
    match shared.durability {
        Durability::Sync | Durability::Memory => {
            shared.applied.store(last, Ordering::Release);
            sync(shared).map_err(|error| shared.poison(&error))?;
            // First: a task that waits for the watermark reads next.
            show(shared, last);
            shared.durable.send_replace(last);
        }
        Durability::Async => {
            // First: a task that sees it applied, which is as good as acknowledged, reads next.
            show(shared, last);
            shared.applied.store(last, Ordering::Release);
            writing.unsynced_since.get_or_insert_with(|| Clock::System.elapsed());
        }
    }
    Ok(())
}

fn sync(shared: &Shared) -> Result<(), StorageError> {
    let begun = Clock::System.elapsed();
    let synced = in_the_call(shared.engine.sync());
    shared.syncs.observe(Clock::System.elapsed().saturating_sub(begun));
    synced
}

fn show(shared: &Shared, last: Seq) {
    shared.shown.show(View::new(shared.engine.view(), last), false);
}

/// A failure has no waiting writer: the poisoned shard reports it to the next one.
fn sync_unsynced(shared: &Shared, writing: &mut Writing) {
    let _on_panic = PoisonOnPanic(shared);
    if writing.unsynced_since.take().is_none() || shared.check().is_err() {
        return;
    }
    match sync(shared) {
        Ok(()) => drop(shared.durable.send_replace(shared.applied.load(Ordering::Acquire))),
        Err(error) => drop(shared.poison(&error)),
    }
}

/// Result of an engine that does its work in the call: a thread commits over no other engine.
pub(crate) fn in_the_call<T>(work: Answer<'_, T>) -> Result<T, StorageError> {
    match work {
        Answer::Now(done) => done,
        Answer::Later(_) => unreachable!("an engine that answers later has a task to commit"),
    }
}

/// Poisons the shard after a panic in an engine: otherwise the queued commits would never be
/// answered.
pub(crate) struct PoisonOnPanic<'a>(pub &'a Shared);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(&StorageError::io("the storage engine panicked"));
            self.0.queue.abandon();
        }
    }
}
