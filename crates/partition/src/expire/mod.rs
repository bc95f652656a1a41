//! Removes items whose time to live has run out, in the background, a small commit at a time.
//!
//! Readers do not see such items any more, so there is no hurry: a *sweep* looks for them in the
//! order in which they run out (`due_items.rs`) without any lock and takes the sequencer only to
//! delete a few of them. A partition knows the earliest time at which an item may run out ([`Due`])
//! from the last sweep and from the writes since. This time holds for every default of the
//! container; before it there is nothing to sweep. After a start the time is unknown, so there is a
//! first sweep.
//!
//! The commits are patient (`crates/storage/src/queue.rs`): they are synced with commits of clients where there are any, and the sweep
//! continues meanwhile. Only its end waits for all of them.
//!
//! The account decides when to sweep, and how fast.

mod due_items;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use shardlake_model::{ErrorKind, Result};
use shardlake_stdx::Timestamp;
use shardlake_storage::PendingCommit;

use crate::commit::Writer;
use crate::deletion::Deletion;
use crate::due::Due;
use crate::partition::Partition;
use crate::sequencer::Sequencer;
use crate::shape::ContainerSchema;
use due_items::{Place, Search, goes_by_default, items_of_a_look};

/// Deletions of one commit, which may be bounded by its rows before: writers wait while it is planned.
const ITEMS_DELETED_MAX: usize = 32;

/// Commits of a sweep that are not durable yet: a client's commit takes along so many at most.
const UNDER_WAY_MAX: usize = 2;

/// A partition's record of its items' ends.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// From the last sweep.
    swept: AtomicDue,
    /// From the writes since it began.
    written: AtomicDue,
    /// Sweeps begun; under the sequencer.
    sweeps: AtomicU64,
    purged: AtomicU64,
    /// The end of every item that has a time of its own is in the queue.
    is_queued: bool,
    /// In the log up to here no item is left that uses the container's default.
    log_done: AtomicU64,
}

#[derive(Debug)]
struct AtomicDue {
    own: AtomicU64,
    oldest: AtomicU64,
}

impl AtomicDue {
    fn new(due: Due) -> AtomicDue {
        AtomicDue { own: AtomicU64::new(due.own), oldest: AtomicU64::new(due.oldest) }
    }

    fn get(&self) -> Due {
        Due { own: self.own.load(Ordering::Acquire), oldest: self.oldest.load(Ordering::Acquire) }
    }

    fn set(&self, due: Due) {
        self.own.store(due.own, Ordering::Release);
        self.oldest.store(due.oldest, Ordering::Release);
    }

    fn note(&self, due: Due) {
        self.own.fetch_min(due.own, Ordering::AcqRel);
        self.oldest.fetch_min(due.oldest, Ordering::AcqRel);
    }
}

impl Expiry {
    pub fn of_partition(is_empty: bool, is_queued: bool) -> Expiry {
        let known = if is_empty { Due::NEVER } else { Due::UNKNOWN };
        let (swept, written) = (AtomicDue::new(known), AtomicDue::new(Due::NEVER));
        let zero = || AtomicU64::new(0);
        Expiry { swept, written, sweeps: zero(), purged: zero(), is_queued, log_done: zero() }
    }

    pub fn is_queued(&self) -> bool {
        self.is_queued
    }

    /// Notes the expiry of a commit's items; under the sequencer.
    pub fn note(&self, due: Due) {
        if due != Due::NEVER {
            self.written.note(due);
        }
    }

    fn due(&self) -> Due {
        self.swept.get().min(self.written.get())
    }
}

/// A walk over a partition's items whose time may have run out.
#[derive(Debug)]
pub struct Sweep {
    number: u64,
    place: Place,
    /// Keys that were found and not dealt with yet, in their order.
    found: VecDeque<Bytes>,
    /// Expiry of the items that stay.
    due: Due,
    /// The log was searched up to here, starting at [`Sweep::page`] in the last look.
    log_done: u64,
    page: u64,
    /// Where the next sweep is to begin in the log, since something behind it stays.
    log_kept: Option<u64>,
    /// Commits that wait for others to be synced with, the oldest first.
    under_way: VecDeque<(u64, PendingCommit)>,
}

/// Result of one step of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepStep {
    /// Looked at items, and deleted some of them. The charge is a client's for deleting them.
    Went { purged: u64, charge_centi: u64 },
    /// The shard has no capacity for work that can wait.
    Overloaded,
    /// The container's time to live was changed since the sweep's shape was made.
    Superseded,
    /// Every item was looked at.
    Complete,
}

impl Partition {
    /// When, in seconds, the first item may run out under a default; `None` while none can.
    pub fn expiry_due(&self, default_ttl: Option<i64>) -> Option<u64> {
        self.expiry.due().at(default_ttl)
    }

    /// Items removed since the partition was opened because their time had run out.
    pub fn purged(&self) -> u64 {
        self.expiry.purged.load(Ordering::Relaxed)
    }

    /// From now on only sweeps with this default remove expired items. To be called before a
    /// changed definition is published.
    pub async fn follow_ttl(&self, default_ttl: Option<i64>) {
        self.sequencer.hold().await.default_ttl = Some(default_ttl);
    }

    /// Only the findings of the last sweep that began are kept.
    pub async fn begin_sweep(&self) -> Result<Sweep> {
        let (number, last) = {
            let sequencer = self.sequencer.hold().await;
            self.check_open()?;
            // The sweep sees writes from before this; later ones are noted anew.
            let known = self.expiry.due();
            self.expiry.swept.set(known);
            self.expiry.written.set(Due::NEVER);
            let number = self.expiry.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
            (number, self.last_queued(&sequencer))
        };
        self.wait_for(last).await?;
        let place = if self.expiry.is_queued { Place::Own(None) } else { Place::Items(None) };
        let log_done = self.expiry.log_done.load(Ordering::Acquire);
        Ok(Sweep {
            number,
            place,
            found: VecDeque::new(),
            due: Due::NEVER,
            log_done,
            page: log_done,
            log_kept: None,
            under_way: VecDeque::new(),
        })
    }

    /// Looks for items, or removes some that were found, with up to `rows_max` rows of the index. Not both: clients may come in between.
    pub async fn sweep_step(
        &self,
        shape: &Arc<ContainerSchema>,
        now: Timestamp,
        sweep: &mut Sweep,
        rows_max: usize,
    ) -> Result<SweepStep> {
        if sweep.found.is_empty() && sweep.place == Place::End {
            return self.end_sweep(shape, sweep).await;
        }
        if sweep.found.is_empty() {
            self.look_for_due(shape, now, sweep, items_of_a_look(rows_max)).await?;
            return Ok(SweepStep::Went { purged: 0, charge_centi: 0 });
        }
        self.purge(shape, now, sweep, rows_max).await
    }

    async fn look_for_due(
        &self,
        shape: &ContainerSchema,
        now: Timestamp,
        sweep: &mut Sweep,
        items_max: usize,
    ) -> Result<()> {
        let search = Search {
            uid: self.uid,
            snapshot: self.shard().snapshot(),
            shape,
            now_seconds: now.seconds(),
            joined_to: self.past.marks().joined_to,
            log_from: self.expiry.log_done.load(Ordering::Acquire),
            items_max,
        };
        let found = search.look(&sweep.place).await?;
        if let Place::Log(after) = sweep.place {
            (sweep.page, sweep.log_done) = (after, found.log_to);
            sweep.log_kept = sweep.log_kept.or(found.log_kept);
        }
        sweep.due = sweep.due.min(found.due);
        (sweep.place, sweep.found) = (found.next, found.keys.into());
        Ok(())
    }

    /// Returns when at most so many commits of the sweep are under way.
    async fn wait_for_sweep(&self, sweep: &mut Sweep, left: usize) -> Result<()> {
        while sweep.under_way.len() > left {
            // Removed when it is done: a step after a cancelled one waits for it again.
            let (lsn, commit) = sweep.under_way.front_mut().expect("there are more than none");
            let (lsn, done) = (*lsn, commit.await);
            sweep.under_way.pop_front();
            done.map_err(crate::storage_error)?;
            self.note_acknowledged(lsn);
        }
        Ok(())
    }

    async fn end_sweep(&self, shape: &ContainerSchema, sweep: &mut Sweep) -> Result<SweepStep> {
        // The state recorded from now on rests on them.
        self.wait_for_sweep(sweep, 0).await?;
        let _sequencer = self.sequencer.hold().await;
        self.check_open()?;
        if self.expiry.sweeps.load(Ordering::Relaxed) == sweep.number {
            let mut due = sweep.due;
            if self.expiry.is_queued && !goes_by_default(shape) {
                // The log was not looked at, and the earlier finding about it stays true.
                due.oldest = due.oldest.min(self.expiry.swept.get().oldest);
            }
            self.expiry.swept.set(due);
            self.expiry.log_done.store(sweep.log_kept.unwrap_or(sweep.log_done), Ordering::Release);
        }
        Ok(SweepStep::Complete)
    }

    /// Deletes those of the items that are still there and still expired, as many as one commit should.
    async fn purge(
        &self,
        shape: &Arc<ContainerSchema>,
        now: Timestamp,
        sweep: &mut Sweep,
        rows_max: usize,
    ) -> Result<SweepStep> {
        self.wait_for_sweep(sweep, UNDER_WAY_MAX - 1).await?;
        let found: Arc<[Bytes]> = sweep.found.iter().take(ITEMS_DELETED_MAX).cloned().collect();
        // Clients cannot write to items that a transaction holds; they are left for a later sweep.
        let spares = Some(self.gates.clone());
        let deletion = Deletion { found, only_expired: true, spares, rows_max };
        let (deleted, commit) = match self.queue_deletion(shape, now, Writer::Holder, &deletion).await {
            Err(error) if error.kind() == ErrorKind::TooManyRequests => return Ok(SweepStep::Overloaded),
            deleted => deleted?,
        };
        sweep.under_way.extend(commit);
        if deleted.is_superseded {
            return Ok(SweepStep::Superseded);
        }
        sweep.found.drain(..deleted.cut.unwrap_or(deletion.found.len()));
        if deleted.due != Due::NEVER {
            sweep.log_kept = Some(sweep.log_kept.map_or(sweep.page, |kept| kept.min(sweep.page)));
        }
        self.expiry.note(deleted.due);
        self.expiry.purged.fetch_add(deleted.expired, Ordering::Relaxed);
        Ok(SweepStep::Went { purged: deleted.expired, charge_centi: deleted.expired_centi })
    }
}

impl Sequencer {
    /// Whether a shape has the container's current time to live. Only then may items be removed for
    /// good.
    pub fn may_expire(&self, shape: &ContainerSchema) -> bool {
        shape.default_ttl.is_some() && self.default_ttl.is_none_or(|current| current == shape.default_ttl)
    }
}
