//! Moving the items of partitions to other partitions while they are read and written: the one routine behind split, merge and
//! move.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | sources, targets, and how far the work is |
//! | `copy.rs` | the bulk: everything a snapshot shows, sorted, past the log |
//! | `ordinals.rs` | which target an item went to, for the postings that name it by ordinal |
//! | `catch_up.rs` | the changes in the change log since |
//! | `cutover.rs` | the end: the sources' sequencers held, the last changes, the targets' first log entry |
//!
//! Order of events: [`Relocation::copy`] → [`Relocation::catch_up`] until little is left →
//! [`Relocation::cut_over`], during which no writes are accepted → the caller publishes the new
//! routing → [`Cutover::complete`]: the sources answer no more. Sources change nothing but their
//! last state, so giving up means dropping the targets' data.
//!
//! A target's items, unique keys, ordinals, logical sizes, postings and log are those of its part of the hash space: items keep
//! their LSNs, etags and ordinals, so that resource ids and positions in index order hold. Its log has the sources' entries,
//! without the operations on others' items; where sources meet, entries of one LSN become one. Its own commits start above
//! the highest LSN of its sources.

mod catch_up;
mod copy;
mod cutover;
mod ordinals;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardlake_index::IndexLayout;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::{Durability, PacedWork, Shard};

use crate::core::Core;
use crate::index::Maintained;
use crate::keys::{self, PartitionUid};
use crate::log::entry::Counters;
use crate::origin::PartitionIdentity;
use crate::partition::Partition;
use crate::pending::Pending;
use crate::shape::ContainerSchema;

pub use catch_up::Haste;
pub use cutover::Cutover;

/// Where items go.
#[derive(Debug, Clone)]
pub struct RelocationTarget {
    pub identity: PartitionIdentity,
    pub shard: Shard,
}

/// Progress of a relocation; shared with observers, and with callers that may stop it.
#[derive(Debug, Default)]
pub struct RelocationProgress {
    /// Copied items, of [`RelocationProgress::items`], which the sources counted when the copy
    /// began.
    pub items_copied: AtomicU64,
    pub items: AtomicU64,
    /// Log entries that the targets have not caught up with, when that was looked at last.
    pub lag: AtomicU64,
    /// [`GOES_ON`], [`ABORTED`] or [`PAUSED`].
    wish: AtomicU64,
}

const GOES_ON: u64 = 0;
const ABORTED: u64 = 1;
const PAUSED: u64 = 2;

impl RelocationProgress {
    /// The work is given up at its next step.
    pub fn abort(&self) {
        self.wish.store(ABORTED, Ordering::Release);
    }

    /// The work stops at its next step; another process may continue with it.
    pub fn pause(&self) {
        self.wish.store(PAUSED, Ordering::Release);
    }

    fn check(&self) -> Result<()> {
        match self.wish.load(Ordering::Acquire) {
            GOES_ON => Ok(()),
            ABORTED => Err(Error::new(ErrorKind::Conflict, "the relocation was aborted")),
            _ => Err(Error::new(
                ErrorKind::Unavailable,
                "the server is stopping: the relocation goes on at its next start",
            )),
        }
    }
}

/// Mistakes that tests make on purpose, to see that they are noticed: only with the feature `testing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeededBug {
    /// One batch of changes is passed over.
    SkippedCatchUp,
    /// The sequencers are not held for the last changes.
    NoFence,
    /// A target's LSNs start at 1.
    LsnRestarts,
    /// Postings go to the first target, whichever target has the item.
    MisroutedPostings,
}

/// One relocation at work. Its state is in the targets, so that another process can continue from there.
#[derive(Debug)]
pub struct Relocation {
    /// In the order of the hash space.
    sources: Vec<Arc<Core>>,
    targets: Vec<Target>,
    shape: Arc<ContainerSchema>,
    /// The generations of the index that are carried over.
    maintained: Maintained,
    pub progress: Arc<RelocationProgress>,
    pub bug: Option<SeededBug>,
}

#[derive(Debug)]
struct Target {
    identity: PartitionIdentity,
    shard: Shard,
    state: TargetState,
    /// First item key, without header, that is not this target's.
    end: Option<Vec<u8>>,
}

/// State of a target before it is a partition; stored with every change of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TargetState {
    counters: Counters,
    /// The last LSN of each source that the target has.
    positions: Vec<u64>,
    /// The generations of the index that it was given. Where the container uses others now, items
    /// in it lack postings.
    generations: Vec<u16>,
}

/// Version 1 did not list the generations.
const STATE_VERSION: u8 = 2;

impl TargetState {
    fn encode(&self) -> Vec<u8> {
        assert!(self.generations.len() <= usize::from(u8::MAX), "a container has two generations at most");
        let Counters { items, size_bytes, next_ordinal } = self.counters;
        let mut bytes = vec![STATE_VERSION, self.generations.len() as u8];
        bytes.extend(self.generations.iter().flat_map(|id| id.to_be_bytes()));
        for number in [items, size_bytes, next_ordinal].iter().chain(&self.positions) {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<TargetState> {
        let (count, rest) = bytes.strip_prefix(&[STATE_VERSION])?.split_first()?;
        let (generations, rest) = rest.split_at_checked(usize::from(*count) * 2)?;
        let (generations, _) = generations.as_chunks::<2>();
        let generations = generations.iter().map(|id| u16::from_be_bytes(*id)).collect();
        let (numbers, rest) = rest.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|bytes| u64::from_be_bytes(*bytes));
        let counters =
            Counters { items: numbers.next()?, size_bytes: numbers.next()?, next_ordinal: numbers.next()? };
        rest.is_empty().then(|| TargetState { counters, positions: numbers.collect(), generations })
    }
}

impl Relocation {
    /// `targets` cover the range of `sources`; both are in the order of the hash space. One of the
    /// two lists has one member, and there are two targets at most. `layouts` are the generations of the index that the targets will
    /// serve.
    pub fn new(
        sources: Vec<Arc<Partition>>,
        targets: Vec<RelocationTarget>,
        shape: Arc<ContainerSchema>,
        layouts: Vec<Arc<IndexLayout>>,
        progress: Arc<RelocationProgress>,
    ) -> Relocation {
        assert!(sources.len() == 1 || targets.len() == 1, "ranges are cut or joined, not both");
        assert!(targets.len() <= 2, "one bit of an ordinal finds the target of its postings");
        let generations: Vec<u16> = layouts.iter().map(|layout| layout.id).collect();
        let target = |RelocationTarget { identity, shard }| Target {
            end: keys::item_key_bound(&identity.epk_range),
            identity,
            shard,
            state: TargetState { generations: generations.clone(), ..TargetState::default() },
        };
        Relocation {
            targets: targets.into_iter().map(target).collect(),
            sources: sources.iter().map(|source| source.core().clone()).collect(),
            shape,
            maintained: Maintained { layouts, counted: Vec::new() },
            progress,
            bug: None,
        }
    }

    fn has_bug(&self, bug: SeededBug) -> bool {
        cfg!(feature = "testing") && self.bug == Some(bug)
    }

    /// Whether an earlier run has copied everything, for the index that the container has now: then the work continues with
    /// catching up.
    pub async fn resume(&mut self) -> Result<bool> {
        // Where commits are acknowledged before they are durable, a crash may have removed writes
        // from a source that a target has.
        if self.sources.iter().any(|source| source.shard().durability() == Durability::Async) {
            return Ok(false);
        }
        for target in &mut self.targets {
            let key = keys::relocation_key(target.identity.uid);
            let Some(bytes) = target.shard.get(&key).await.map_err(crate::storage_error)? else {
                return Ok(false);
            };
            match TargetState::decode(&bytes) {
                Some(state)
                    if state.positions.len() == self.sources.len()
                        && state.generations == target.state.generations =>
                {
                    target.state = state;
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Work that clients of all shards concerned are to feel little of.
    fn paced_work(&self) -> PacedWork {
        let sources = self.sources.iter().map(|source| source.shard());
        Shard::paced_work(sources.chain(self.targets.iter().map(|target| &target.shard)), 1)
    }

    /// The place of the target that an item belongs to, by the item's key without its header.
    fn target_of(&self, item_key: &[u8]) -> usize {
        let ends = self.targets.iter().map(|target| target.end.as_deref());
        ends.take_while(|end| end.is_some_and(|end| item_key >= end)).count()
    }
}

impl Target {
    fn uid(&self) -> PartitionUid {
        self.identity.uid
    }
}

/// The overlay of a target, which has no queued commits: all its rows are in its shard.
fn nothing_pending() -> &'static Pending {
    static NOTHING: std::sync::OnceLock<Pending> = std::sync::OnceLock::new();
    NOTHING.get_or_init(Pending::default)
}

#[cfg(test)]
mod catch_up_tests;
#[cfg(test)]
mod copy_tests;
#[cfg(test)]
pub(crate) mod cut_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_and_cut_ones_are_refused() {
        let counters = Counters { items: 3, size_bytes: 900, next_ordinal: 7 };
        let state = TargetState { counters, positions: vec![12, 99], generations: vec![1, 513] };
        let bytes = state.encode();
        assert_eq!(TargetState::decode(&bytes), Some(state));
        for end in 0..bytes.len() {
            assert!(TargetState::decode(&bytes[..end]).is_none_or(|state| state.positions.len() < 2));
        }
    }
}
