//! Sequencer: the lock that orders a partition's writes, and the only ways to hold it.
//!
//! The lock is private to this file, so that it can only be held through the guards below, which
//! end the partition when their holder panics. The guards do so before they release the lock: the
//! next writer finds the partition ended.
//!
//! The holder of the sequencer waits for no engine, neither for a read nor for durability. Where
//! writers have to be kept out for longer, as at the end of a relocation, a [`Fence`] does it:
//! writers that ask for the sequencer wait for the fence's end.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use shardlake_model::Result;
use shardlake_stdx::HybridTime;
use shardlake_storage::witness::Planning;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::cpu_pool::offload_planning;
use crate::end::{EndOnPanic, Life};
use crate::index::Maintained;
use crate::invariants::Point;
use crate::log::entry::Counters;
use crate::oldest::Oldest;
use crate::pending::Pending;
use crate::shape::ContainerSchema;
use crate::sizes::{Largest, RecentSizes};
use crate::watch::Watch;

#[derive(Debug)]
pub(crate) struct Sequencer {
    pub lsn: u64,
    /// Time of the last entry of the log: times never go down in it.
    pub time: HybridTime,
    pub counters: Counters,
    pub pending: Pending,
    /// The structures that writes keep in step with the items: decided here and not by a request's
    /// shape, which may be outdated.
    pub maintained: Maintained,
    pub sizes: RecentSizes,
    /// The container's current setting, where it was changed since the partition was opened.
    pub default_ttl: Option<Option<i64>>,
    /// The shape with which the unique keys changed: values are claimed by it and later ones.
    pub unique_since: u64,
    /// The copies that commits record ended rows for.
    pub watched: Followed,
    /// Where the search for items whose time has run out continues.
    pub room_sought_to: Option<Vec<u8>>,
    /// The oldest items of a logical partition with bounds, from the first time that a plan removes
    /// items of it.
    pub oldest: Option<Box<Oldest>>,
    /// Kept from the first request for it.
    pub largest: Option<Box<Largest>>,
    /// The last fence that was put up: it stands as long as its sender lives.
    fence: Option<watch::Receiver<()>>,
}

/// The watch that commits ask, and the shape that it came with.
///
/// A request may carry an older shape than the partition follows, and a newer one is in force before
/// the partition is notified. So the later of both counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followed {
    watch: Option<Arc<dyn Watch>>,
    since: u64,
}

impl Followed {
    /// From now on commits under earlier shapes ask the watch of this one.
    pub fn follow(&mut self, shape: &ContainerSchema) {
        if shape.number >= self.since {
            *self = Followed { watch: shape.watch.clone(), since: shape.number };
        }
    }

    /// The watch of a commit under a shape.
    pub fn of<'s>(&'s self, shape: &'s ContainerSchema) -> Option<&'s dyn Watch> {
        let watch = if shape.number < self.since { &self.watch } else { &shape.watch };
        watch.as_deref()
    }
}

impl Sequencer {
    pub fn new(lsn: u64, time: HybridTime, counters: Counters, maintained: Maintained) -> Self {
        Sequencer {
            lsn,
            time,
            counters,
            pending: Pending::default(),
            maintained,
            sizes: RecentSizes::default(),
            default_ttl: None,
            unique_since: 0,
            watched: Followed::default(),
            room_sought_to: None,
            oldest: None,
            largest: None,
            fence: None,
        }
    }

    /// The partition after the last commit that was queued.
    pub fn point(&self) -> Point {
        Point { lsn: self.lsn, time: self.time, counters: self.counters }
    }

    /// Whether a shape has the container's current time to live. Only then may items be removed for
    /// good.
    pub fn may_expire(&self, shape: &ContainerSchema) -> bool {
        shape.default_ttl.is_some() && self.default_ttl.is_none_or(|current| current == shape.default_ttl)
    }

    /// Ordinals below are never handed out again.
    pub fn reserve_ordinals(&mut self, next: u64) {
        assert!(next < 1 << 40, "a partition hands out fewer than 2^40 ordinals");
        self.counters.next_ordinal = self.counters.next_ordinal.max(next);
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

    /// The sequencer, once no fence keeps it.
    pub async fn hold(&self) -> SequencerGuard {
        loop {
            let sequencer = self.sequencer.clone().lock_owned().await;
            match sequencer.fence.clone().filter(|fence| fence.has_changed().is_ok()) {
                Some(fence) => {
                    drop(sequencer);
                    gone(fence).await;
                }
                None => return SequencerGuard::new(self.life.clone(), sequencer),
            }
        }
    }

    /// Keeps the sequencer from others until the fence goes. `look` sees it as they leave it.
    pub async fn fence<T>(&self, look: impl FnOnce(&Sequencer) -> T) -> (Fence, T) {
        let mut turn = self.hold().await;
        let (stands, fence) = watch::channel(());
        debug_assert!(
            turn.fence.as_ref().is_none_or(|fence| fence.has_changed().is_err()),
            "the sequencer is not held while a fence stands"
        );
        turn.fence = Some(fence);
        (Fence { _end_on_panic: EndOnPanic(self.life.clone()), _stands: stands }, look(&turn))
    }
}

/// Waits until the sender, which never sends, is dropped.
async fn gone(mut fence: watch::Receiver<()>) {
    while fence.changed().await.is_ok() {}
}

/// The sequencer, held. It borrows nothing, so that a plan that takes long can be made on another thread.
#[derive(Debug)]
pub(crate) struct SequencerGuard {
    // Declared first, dropped first: the partition has ended when the next one gets the lock.
    _end_on_panic: EndOnPanic<Arc<Life>>,
    sequencer: OwnedMutexGuard<Sequencer>,
    /// Panics, in debug builds, where the holder waits for an engine.
    planning: Option<Planning>,
}

impl SequencerGuard {
    fn new(life: Arc<Life>, sequencer: OwnedMutexGuard<Sequencer>) -> SequencerGuard {
        SequencerGuard { _end_on_panic: EndOnPanic(life), sequencer, planning: Some(Planning::begin()) }
    }

    /// Runs work on the blocking pool while holding the sequencer, and returns the sequencer.
    pub async fn offload<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Sequencer) -> T + Send + 'static,
    ) -> Result<(SequencerGuard, T)> {
        // The task's other work may wait meanwhile.
        self.planning = None;
        let (mut turn, done) = offload_planning(move || {
            let done = work(&mut self);
            (self, done)
        })
        .await?;
        turn.planning = Some(Planning::begin());
        Ok((turn, done))
    }
}

impl Deref for SequencerGuard {
    type Target = Sequencer;

    fn deref(&self) -> &Sequencer {
        &self.sequencer
    }
}

impl DerefMut for SequencerGuard {
    fn deref_mut(&mut self) -> &mut Sequencer {
        &mut self.sequencer
    }
}

/// Keeps writers from the sequencer, while its owner may wait for anything.
#[derive(Debug)]
#[must_use = "writers wait until it goes"]
pub(crate) struct Fence {
    // Declared first, dropped first: after a panic the writers that waited find the partition ended.
    _end_on_panic: EndOnPanic<Arc<Life>>,
    _stands: watch::Sender<()>,
}

#[cfg(test)]
mod tests {
    use shardlake_model::PartitionUid;

    use super::*;

    fn lock() -> (SequencerLock, Arc<Life>) {
        let life = Arc::new(Life::new(PartitionUid(3), 0));
        let sequencer = Sequencer::new(4, HybridTime(50), Counters::default(), Maintained::default());
        (SequencerLock::new(sequencer, life.clone()), life)
    }

    async fn run_others() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn writers_wait_behind_a_fence_and_its_owner_for_none() {
        let (lock, life) = lock();
        let lock = Arc::new(lock);
        let (fence, lsn) = lock.fence(|sequencer| sequencer.lsn).await;
        assert_eq!(lsn, 4);
        let own = lock.clone();
        let writer = tokio::spawn(async move { own.hold().await.lsn });
        run_others().await;
        assert!(!writer.is_finished(), "the fence stands");
        drop(fence);
        assert_eq!(writer.await.expect("ends"), 4);
        // Another fence may follow, and a writer that was there first is not disturbed.
        let held = lock.hold().await;
        let own = lock.clone();
        let fenced = tokio::spawn(async move { own.fence(|_| ()).await });
        run_others().await;
        assert!(!fenced.is_finished(), "a writer has the sequencer");
        drop(held);
        drop(fenced.await.expect("ends"));
        assert!(!life.is_over());
    }

    #[tokio::test]
    async fn a_panic_of_a_holder_ends_the_partition_before_the_next_one() {
        let (lock, life) = lock();
        let lock = Arc::new(lock);
        let own = lock.clone();
        let failed = tokio::spawn(async move {
            let _held = own.hold().await;
            panic!("while it holds the sequencer (expected by this test)");
        });
        let next = lock.clone();
        let after = tokio::spawn(async move {
            let _held = next.hold().await;
            life.is_over()
        });
        assert!(failed.await.expect_err("it panics").is_panic());
        assert!(after.await.expect("ends"), "the next one finds the partition ended");
    }

    #[tokio::test]
    async fn offloaded_work_has_the_sequencer_and_gives_it_back() {
        let (lock, _) = lock();
        let held = lock.hold().await;
        let work = |sequencer: &mut Sequencer| {
            sequencer.reserve_ordinals(90);
            sequencer.counters.next_ordinal
        };
        let (held, next) = held.offload(work).await.expect("it runs");
        assert_eq!((next, held.counters.next_ordinal), (90, 90));
        drop(held);
        let mut held = lock.hold().await;
        held.reserve_ordinals(10);
        assert_eq!(held.counters.next_ordinal, 90, "ordinals are never handed out again");
        assert_eq!(held.point(), Point { lsn: 4, time: HybridTime(50), counters: held.counters });
    }
}
