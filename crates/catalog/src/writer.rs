//! The one writer of the catalog.
//!
//! *CatalogLock*: one change is made at a time. The holder of the lock edits a copy; dropping the
//! lock before [`CatalogLock::commit`] changes nothing. *Commit*: stores the batch, waits until no
//! crash can undo it, puts the draft in force, and publishes. All of it runs on a task of its own,
//! so that a cancelled caller interrupts nothing. Disk and memory cannot diverge that way: after a
//! commit with unknown outcome, all later ones are refused.
//!
//! *Lanes*: a cut-over holds the writers of a container while it waits for the lock, so it
//! overtakes all ordinary changes but one. *Lock order*: the catalog lock is taken last. Its holder
//! waits for storage and for nothing else.

use std::sync::Arc;

use shardlake_storage::Shard;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::predicates::{broken, broken_by};
use crate::{CatalogError, Change, Definitions};

/// Which lane a change waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    Ordinary,
    /// Writers of items are held until it is through.
    CutOver,
}

/// Whether a commit must be on stable storage before it may be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Later commits are written to the same journal: a crash that undoes this commit undoes all later ones, too.
    UntilAcknowledged,
    /// Journals of several shards are synced separately. Nothing may reach another shard before the catalog's
    /// record of it is durable, or a crash would leave data under a number that is given out again.
    UntilDurable,
}

#[derive(Debug)]
pub struct Writer {
    shard: Shard,
    waits: Waits,
    /// Ordinary changes queue here first, and one of them at a time for the lock.
    lane: Mutex<()>,
    written: Arc<Mutex<Written>>,
}

#[derive(Debug)]
struct Written {
    definitions: Arc<Definitions>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// From the queueing of a batch until its draft is in force.
    Committing,
    Closed,
}

impl Writer {
    /// A writer over the result of [`crate::load`]. Refuses definitions that contradict each other.
    pub fn new(
        shard: Shard,
        has_other_shards: bool,
        definitions: Arc<Definitions>,
    ) -> Result<Writer, CatalogError> {
        let problems = broken(&definitions);
        if !problems.is_empty() {
            return Err(CatalogError::Corrupt(problems.join("; ")));
        }
        let waits = if has_other_shards { Waits::UntilDurable } else { Waits::UntilAcknowledged };
        let written = Arc::new(Mutex::new(Written { definitions, state: State::Open }));
        Ok(Writer { shard, waits, lane: Mutex::new(()), written })
    }

    /// Waits for the lock to change something.
    pub async fn lock(&self, urgency: Urgency) -> Result<CatalogLock, CatalogError> {
        let lane = match urgency {
            Urgency::Ordinary => Some(self.lane.lock().await),
            Urgency::CutOver => None,
        };
        let written = self.written.clone().lock_owned().await;
        drop(lane);
        match written.state {
            State::Open => Ok(CatalogLock { written, shard: self.shard.clone(), waits: self.waits }),
            State::Committing => Err(CatalogError::InDoubt),
            State::Closed => Err(CatalogError::Closed),
        }
    }

    /// Whether it is unknown which part of a change was stored. Waits for a change in progress.
    pub async fn is_in_doubt(&self) -> bool {
        self.written.lock().await.state == State::Committing
    }

    /// Waits for the change in progress, and refuses all later ones.
    pub async fn close(&self) {
        let mut written = self.written.lock().await;
        if written.state == State::Open {
            written.state = State::Closed;
        }
    }
}

/// Leave to make one change.
#[derive(Debug)]
#[must_use = "others wait for their turn"]
pub struct CatalogLock {
    written: OwnedMutexGuard<Written>,
    shard: Shard,
    waits: Waits,
}

impl CatalogLock {
    /// The definitions in force.
    pub fn definitions(&self) -> &Arc<Definitions> {
        &self.written.definitions
    }

    /// Compares a draft with the definitions in force, and refuses a draft that contradicts itself.
    pub fn plan(&self, draft: Definitions) -> Result<Arc<Change>, CatalogError> {
        let change = Change::between(self.written.definitions.clone(), draft);
        let problems = if change.is_empty() { Vec::new() } else { broken_by(&change) };
        match problems.is_empty() {
            true => Ok(Arc::new(change)),
            false => Err(CatalogError::Refused(problems.join("; "))),
        }
    }

    /// Stores the change, then calls `publish`, which shows it. It completes even if the caller is
    /// cancelled. An error other than an overload leaves open whether the change was stored: no
    /// change is accepted afterwards.
    pub async fn commit(
        self,
        change: Arc<Change>,
        publish: impl FnOnce() + Send + 'static,
    ) -> Result<(), CatalogError> {
        let committed = tokio::spawn(self.committed(change, publish));
        // Its panic leaves the state in doubt.
        committed.await.map_err(|_| CatalogError::InDoubt)?
    }

    async fn committed(
        mut self,
        change: Arc<Change>,
        publish: impl FnOnce() + Send + 'static,
    ) -> Result<(), CatalogError> {
        assert!(Arc::ptr_eq(&self.written.definitions, &change.before), "a change is of what is in force");
        // An error here means that nothing has been queued.
        let queued = self.shard.commit(change.batch())?;
        self.written.state = State::Committing;
        queued.await?;
        if self.waits == Waits::UntilDurable {
            self.shard.wait_durable(self.shard.applied()).await?;
        }
        self.written.definitions = change.after.clone();
        publish();
        self.written.state = State::Open;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
