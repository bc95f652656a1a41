//! Group commit over an engine that answers later: a task instead of the thread of `committer.rs`.
//!
//! A sync of an object store takes as long as hundreds of writes to memory. So groups are applied while a sync is under way,
//! and the next sync takes them all:
//!
//! ```text
//! applied   1  2 3    4 5 6      7
//! syncs     ├── 1 ──┤├─ 2-5 ───┤├─ 6-7 ──
//! readers             1          2-5
//! ```
//!
//! The view that readers get after a sync is made when the sync begins, so that it shows exactly
//! the commits that the sync covers. Order, failures and [`Durability`] are as over a thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shardlake_stdx::Clock;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::committer::{ASYNC_SYNC_INTERVAL, PoisonOnPanic};
use crate::large_commits::RowsPermit;
use crate::queue::{GroupWriter, Queued, Unshown};
use crate::shared::Shared;
use crate::view::View;
use crate::wal_archive::History;
use crate::{Durability, Seq, StorageError};

/// Bytes that may be applied without being under way to the store; more stays in the queue, which is bounded.
const APPLIED_AHEAD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// While the lease of the account is over.
const LEASE_LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Writers whose commits are applied.
#[derive(Default)]
struct Waiting {
    writers: Vec<oneshot::Sender<Result<(), StorageError>>>,
    /// Held, and given back when the commits are durable.
    turns: Vec<RowsPermit>,
    unshown: Unshown,
    size_bytes: usize,
}

impl Waiting {
    fn answer(self, result: &Result<(), StorageError>) {
        for writer in self.writers {
            // A writer that went away is no reason to stop.
            let _ = writer.send(result.clone());
        }
    }
}

/// A sync under way.
struct Syncing {
    done: JoinHandle<Result<(), StorageError>>,
    view: View,
    covered: Waiting,
}

pub(crate) struct Pipeline {
    shared: Arc<Shared>,
    applied: Waiting,
    /// Since when something applied waits for a sync, with [`Durability::Async`].
    unsynced_since: Option<Instant>,
    syncing: Option<Syncing>,
}

impl Pipeline {
    pub fn new(shared: Arc<Shared>) -> Self {
        Pipeline { shared, applied: Waiting::default(), unsynced_since: None, syncing: None }
    }

    /// Runs until the queue is closed and everything in it durable.
    pub async fn run(mut self) {
        let shared = self.shared.clone();
        let _on_panic = PoisonOnPanic(&shared);
        loop {
            self.apply_queued().await;
            self.begin_sync();
            let is_idle = self.syncing.is_none() && self.unsynced_since.is_none();
            if is_idle && shared.queue.is_closed() && shared.queue.is_empty() {
                return;
            }
            let sync_due = self.unsynced_since.map(|since| since + ASYNC_SYNC_INTERVAL);
            tokio::select! {
                biased;
                result = ended(&mut self.syncing) => self.end_sync(result),
                () = shared.queue.rung() => {}
                () = due(sync_due), if self.syncing.is_none() => {}
            }
        }
    }

    async fn apply_queued(&mut self) {
        while self.applied.size_bytes < APPLIED_AHEAD_BYTES_MAX {
            let group = self.shared.queue.take_group(GroupWriter::Committer);
            if group.is_empty() {
                return;
            }
            self.apply(group).await;
        }
    }

    async fn apply(&mut self, group: Vec<Queued>) {
        let last = group.last().map(|commit| commit.seq).expect("the group is not empty");
        let mut batches = Vec::with_capacity(group.len());
        let mut waiting = Waiting::default();
        for commit in group {
            waiting.size_bytes += commit.batch.size_bytes();
            batches.push(commit.batch);
            waiting.writers.push(commit.done);
            waiting.turns.extend(commit.turn);
            waiting.unshown.add(commit.under_way);
        }
        let shared = &self.shared;
        let applying = shared.applying.lock().await;
        let before = shared.applied.load(Ordering::Acquire);
        assert!(last > before, "groups are applied in the order of their numbers");
        let result = match shared.check() {
            Ok(()) => {
                batches.extend(shared.history.get().map(History::stamp));
                shared.mark_hot(&batches, last);
                shared.shown.hold();
                shared.engine.apply(batches).await.map_err(|error| shared.poison(&error))
            }
            refused => refused,
        };
        drop(applying);
        if result.is_err() {
            return waiting.answer(&result);
        }
        if shared.durability == Durability::Async {
            // First: a task that sees it applied, which is as good as acknowledged, reads next.
            shared.shown.show(View::new(shared.engine.view(), last), false);
            shared.applied.store(last, Ordering::Release);
            self.unsynced_since.get_or_insert_with(Instant::now);
            std::mem::take(&mut waiting.unshown).shown();
            return waiting.answer(&Ok(()));
        }
        shared.applied.store(last, Ordering::Release);
        self.applied.writers.append(&mut waiting.writers);
        self.applied.turns.append(&mut waiting.turns);
        self.applied.unshown.append(waiting.unshown);
        self.applied.size_bytes += waiting.size_bytes;
    }

    /// Unless one is under way, or none is due.
    fn begin_sync(&mut self) {
        let shared = &self.shared;
        let is_due = match self.unsynced_since {
            Some(since) => {
                since.elapsed() >= ASYNC_SYNC_INTERVAL || shared.is_sync_wanted() || shared.queue.is_closed()
            }
            None => !self.applied.writers.is_empty(),
        };
        if self.syncing.is_some() || !is_due {
            return;
        }
        self.unsynced_since = None;
        let covered = std::mem::take(&mut self.applied);
        if let Err(error) = shared.check() {
            return covered.answer(&Err(error));
        }
        let view = View::new(shared.engine.view(), shared.applied.load(Ordering::Acquire));
        let engine = shared.engine.clone();
        shared.sync_under_way.begin();
        let counting = shared.clone();
        let done = tokio::spawn(async move {
            let begun = Clock::System.elapsed();
            let synced = engine.sync().await;
            counting.syncs.observe(Clock::System.elapsed().saturating_sub(begun));
            synced
        });
        self.syncing = Some(Syncing { done, view, covered });
    }

    fn end_sync(&mut self, result: Result<(), StorageError>) {
        let Some(Syncing { view, mut covered, .. }) = self.syncing.take() else { return };
        let shared = &self.shared;
        shared.sync_under_way.end();
        let result = result.map_err(|error| shared.poison(&error));
        if result.is_ok() {
            let seq: Seq = view.seq();
            assert!(seq <= shared.applied.load(Ordering::Acquire), "only applied commits are durable");
            assert!(seq >= *shared.durable.borrow(), "a commit stays durable");
            if shared.durability != Durability::Async {
                // First: a task that waits for the watermark reads next.
                shared.shown.show(view, !self.applied.writers.is_empty());
                std::mem::take(&mut covered.unshown).shown();
            }
            shared.durable.send_replace(seq);
        }
        // Looked at after the sync. The commits are stored, but a later owner may have begun without them.
        if result.is_err() || shared.engine.is_leased() {
            return covered.answer(&result);
        }
        tokio::spawn(answer_when_leased(shared.clone(), covered));
    }
}

/// Acknowledges stored commits when the lease is held again: no other process had it in between.
/// Their requests end at their own time.
async fn answer_when_leased(shared: Arc<Shared>, covered: Waiting) {
    while !shared.engine.is_leased() {
        let over = match shared.check() {
            Ok(()) if shared.queue.is_closed() => Some(StorageError::NotLeased),
            checked => checked.err(),
        };
        if let Some(error) = over {
            return covered.answer(&Err(error));
        }
        sleep(LEASE_LOOK_AGAIN).await;
    }
    covered.answer(&Ok(()));
}

/// The end of the sync under way; never where there is none.
async fn ended(syncing: &mut Option<Syncing>) -> Result<(), StorageError> {
    match syncing {
        Some(syncing) => {
            let panicked = |_| Err(StorageError::io("the storage engine panicked"));
            (&mut syncing.done).await.unwrap_or_else(panicked)
        }
        None => std::future::pending().await,
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
