//! The sequencer: what orders a partition's writes, and the only ways to hold it.
//!
//! The lock is private to this file, so that nobody holds the sequencer without one of the guards below, which end the partition
//! when their holder panics. The guards say so before they give the lock back: the next writer finds the partition ended.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};

use crate::change_log::Counters;
use crate::end::{EndOnPanic, Life};
use crate::index::Maintained;
use crate::pending::Pending;
use crate::sizes::{Largest, RecentSizes};
use crate::transaction::View;

#[derive(Debug)]
pub(crate) struct Sequencer {
    pub lsn: u64,
    /// Of the last entry of the log: times never go down in it.
    pub timestamp_ms: u64,
    pub counters: Counters,
    pub pending: Pending,
    /// What writes keep in step with the items: decided here and not by a request's shape, which may be outdated.
    pub maintained: Maintained,
    pub sizes: RecentSizes,
    /// What the container says now, where it was changed since the partition was opened.
    pub default_ttl: Option<Option<i64>>,
    /// Where the search for items whose time has run out goes on.
    pub room_sought_to: Option<Vec<u8>>,
    /// Kept from the first time that somebody asks.
    pub largest: Option<Box<Largest>>,
}

impl Sequencer {
    pub fn new(lsn: u64, timestamp_ms: u64, counters: Counters, maintained: Maintained) -> Self {
        Sequencer {
            lsn,
            timestamp_ms,
            counters,
            pending: Pending::default(),
            maintained,
            sizes: RecentSizes::default(),
            default_ttl: None,
            room_sought_to: None,
            largest: None,
        }
    }

    /// Ordinals below are never handed out again.
    pub fn reserve_ordinals(&mut self, next: u64) {
        self.counters.next_ordinal = self.counters.next_ordinal.max(next);
    }

    pub fn view(&self) -> View<'_> {
        View { pending: &self.pending, maintained: &self.maintained, sizes: Some(&self.sizes), base: None }
    }
}

/// The sequencer of a partition, which one caller holds at a time.
#[derive(Debug)]
pub(crate) struct SequencerLock {
    sequencer: Arc<Mutex<Sequencer>>,
    life: Arc<Life>,
}

impl SequencerLock {
    pub fn new(sequencer: Sequencer, life: Arc<Life>) -> Self {
        SequencerLock { sequencer: Arc::new(Mutex::new(sequencer)), life }
    }

    pub async fn hold(&self) -> Turn<'_> {
        let sequencer = self.sequencer.lock().await;
        Turn { _end_on_panic: EndOnPanic(&self.life), sequencer }
    }

    /// For who holds several, beside the partitions themselves.
    pub async fn fence(&self) -> Fence {
        let sequencer = self.sequencer.clone().lock_owned().await;
        Fence { _end_on_panic: EndOnPanic(self.life.clone()), sequencer }
    }
}

/// The sequencer, held.
#[derive(Debug)]
pub(crate) struct Turn<'p> {
    // Declared first, dropped first: the partition has ended when the next one gets the lock.
    _end_on_panic: EndOnPanic<&'p Life>,
    sequencer: MutexGuard<'p, Sequencer>,
}

/// Likewise, for a holder that borrows nothing.
#[derive(Debug)]
pub(crate) struct Fence {
    _end_on_panic: EndOnPanic<Arc<Life>>,
    sequencer: OwnedMutexGuard<Sequencer>,
}

impl Deref for Turn<'_> {
    type Target = Sequencer;

    fn deref(&self) -> &Sequencer {
        &self.sequencer
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Sequencer {
        &mut self.sequencer
    }
}

impl Deref for Fence {
    type Target = Sequencer;

    fn deref(&self) -> &Sequencer {
        &self.sequencer
    }
}

impl DerefMut for Fence {
    fn deref_mut(&mut self) -> &mut Sequencer {
        &mut self.sequencer
    }
}
