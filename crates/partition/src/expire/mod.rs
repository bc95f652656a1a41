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
use std::sync::atomic::Ordering;

use bytes::Bytes;
use shardlake_model::{ErrorKind, Result};
use shardlake_stdx::Timestamp;
use shardlake_storage::PendingCommit;

use crate::commit::Writer;
use crate::core::Core;
use crate::deletion::{Deletion, queue_deletion};
use crate::due::Due;
use crate::shape::ContainerSchema;
use due_items::{Place, Search, goes_by_default, items_of_a_look};

/// Deletions of one commit, which may be bounded by its rows before: writers wait while it is planned.
const ITEMS_DELETED_MAX: usize = 32;

/// Commits of a sweep that are not durable yet: a client's commit takes along so many at most.
const UNDER_WAY_MAX: usize = 2;

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

/// Only the findings of the last sweep that began are kept.
pub(crate) async fn begin_sweep(core: &Core) -> Result<Sweep> {
    let (number, last) = {
        let sequencer = core.sequencer.hold().await;
        core.check_open()?;
        // The sweep sees writes from before this; later ones are noted anew.
        let known = core.expiry.begin();
        core.expiry.swept.set(known);
        core.expiry.written.set(Due::NEVER);
        let number = core.expiry.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        (number, core.last_queued(&sequencer))
    };
    core.wait_for(last).await?;
    let place = if core.expiry.is_queued { Place::Own(None) } else { Place::Items(None) };
    let log_done = core.expiry.log_done.load(Ordering::Acquire);
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
pub(crate) async fn sweep_step(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    now: Timestamp,
    sweep: &mut Sweep,
    rows_max: usize,
) -> Result<SweepStep> {
    if sweep.found.is_empty() && sweep.place == Place::End {
        return end_sweep(core, shape, sweep).await;
    }
    if sweep.found.is_empty() {
        look_for_due(core, shape, now, sweep, items_of_a_look(rows_max)).await?;
        return Ok(SweepStep::Went { purged: 0, charge_centi: 0 });
    }
    purge(core, shape, now, sweep, rows_max).await
}

async fn look_for_due(
    core: &Core,
    shape: &ContainerSchema,
    now: Timestamp,
    sweep: &mut Sweep,
    items_max: usize,
) -> Result<()> {
    let search = Search {
        uid: core.uid,
        snapshot: core.shard().snapshot(),
        shape,
        now_seconds: now.seconds(),
        joined_to: core.past.marks().joined_to,
        log_from: core.expiry.log_done.load(Ordering::Acquire),
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
async fn wait_for_sweep(core: &Core, sweep: &mut Sweep, left: usize) -> Result<()> {
    while sweep.under_way.len() > left {
        // Removed when it is done: a step after a cancelled one waits for it again.
        let (lsn, commit) = sweep.under_way.front_mut().expect("there are more than none");
        let (lsn, done) = (*lsn, commit.await);
        sweep.under_way.pop_front();
        done.map_err(crate::storage_error)?;
        core.note_acknowledged(lsn);
    }
    Ok(())
}

async fn end_sweep(core: &Core, shape: &ContainerSchema, sweep: &mut Sweep) -> Result<SweepStep> {
    // The state recorded from now on rests on them.
    wait_for_sweep(core, sweep, 0).await?;
    let _sequencer = core.sequencer.hold().await;
    core.check_open()?;
    if core.expiry.sweeps.load(Ordering::Relaxed) == sweep.number {
        let mut due = sweep.due;
        if core.expiry.is_queued && !goes_by_default(shape) {
            // The log was not looked at, and the earlier finding about it stays true.
            due.oldest = due.oldest.min(core.expiry.swept.get().oldest);
        }
        core.expiry.swept.set(due);
        core.expiry.log_done.store(sweep.log_kept.unwrap_or(sweep.log_done), Ordering::Release);
    }
    Ok(SweepStep::Complete)
}

/// Deletes those of the items that are still there and still expired, as many as one commit should.
async fn purge(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    now: Timestamp,
    sweep: &mut Sweep,
    rows_max: usize,
) -> Result<SweepStep> {
    wait_for_sweep(core, sweep, UNDER_WAY_MAX - 1).await?;
    let found: Arc<[Bytes]> = sweep.found.iter().take(ITEMS_DELETED_MAX).cloned().collect();
    // Clients cannot write to items that a transaction holds; they are left for a later sweep.
    let spares = Some(core.transactions.gates.clone());
    let upto = core.holds.expired();
    let deletion = Deletion { found, only_expired: true, upto, spares, rows_max };
    let (deleted, commit) = match queue_deletion(core, shape, now, Writer::Holder, &deletion).await {
        Err(error) if error.kind() == ErrorKind::TooManyRequests => return Ok(SweepStep::Overloaded),
        deleted => deleted?,
    };
    sweep.under_way.extend(commit);
    if deleted.is_superseded {
        return Ok(SweepStep::Superseded);
    }
    assert!(deleted.cut.is_none_or(|cut| cut > 0), "a sweep deals with one item at least");
    sweep.found.drain(..deleted.cut.unwrap_or(deletion.found.len()));
    if deleted.due != Due::NEVER || deleted.held != Due::NEVER {
        sweep.log_kept = Some(sweep.log_kept.map_or(sweep.page, |kept| kept.min(sweep.page)));
    }
    core.expiry.note(deleted.due);
    core.expiry.note_held(deleted.held, upto);
    core.expiry.purged.fetch_add(deleted.expired, Ordering::Relaxed);
    Ok(SweepStep::Went { purged: deleted.expired, charge_centi: deleted.expired_centi })
}
