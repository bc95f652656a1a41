//! Visible state of a container's split, merge or move, and the state that its entries share about it.

use std::sync::{Arc, Mutex as StdMutex, MutexGuard};
use std::time::Duration;

pub use shardlake_catalog::RelocationKind;
use shardlake_catalog::RelocationRecord;
use shardlake_partition::RelocationProgress;
use tokio::sync::Mutex;

/// The parts of a relocation, in the order in which they end. A test may stop the work after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RelocationStep {
    /// It is in the catalog.
    Planned,
    /// The targets hold what the sources held when the copy began.
    Copied,
    /// The targets are almost level with the sources.
    CaughtUp,
    /// Writers are held, the targets are complete, and the routing is still the old one.
    Fenced,
    /// The new routing is in force.
    Published,
    /// All leftovers of the relocation are deleted.
    CleanedUp,
}

impl RelocationStep {
    pub const ALL: [RelocationStep; 6] = [
        RelocationStep::Planned,
        RelocationStep::Copied,
        RelocationStep::CaughtUp,
        RelocationStep::Fenced,
        RelocationStep::Published,
        RelocationStep::CleanedUp,
    ];

    pub fn name(self) -> &'static str {
        match self {
            RelocationStep::Planned => "planned",
            RelocationStep::Copied => "copied",
            RelocationStep::CaughtUp => "caught up",
            RelocationStep::Fenced => "fenced",
            RelocationStep::Published => "published",
            RelocationStep::CleanedUp => "cleaned up",
        }
    }
}

/// How a relocation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelocationReport {
    pub kind: RelocationKind,
    pub sources: Vec<u32>,
    /// Ids of the ranges that replaced the sources.
    pub targets: Vec<u32>,
    pub items: u64,
    pub duration: Duration,
    /// For how long writers were held.
    pub pause: Duration,
    /// Number of times that the last catch-up took too long and was put off.
    pub attempts: u32,
}

/// A running relocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelocationStatus {
    pub kind: RelocationKind,
    pub sources: Vec<u32>,
    /// Id, bounds in hexadecimal, shard.
    pub targets: Vec<(u32, String, String, u16)>,
    /// The last step that has ended.
    pub step: RelocationStep,
    pub items: u64,
    pub items_copied: u64,
    pub lag: u64,
}

/// State that all entries of one container share about its relocations.
#[derive(Debug, Default)]
pub struct Motion {
    /// Held by the task that moves partitions or fills an index: one at a time.
    pub topology: Mutex<()>,
    /// Held while the policies of partitions, or the partitions themselves, are exchanged (definition_change.rs).
    pub alignment: Mutex<()>,
    state: StdMutex<MotionState>,
}

#[derive(Debug, Default)]
pub struct MotionState {
    /// Until `last` has the end of it, which comes after the routing no longer has it.
    pub running: Option<RelocationRecord>,
    pub step: Option<RelocationStep>,
    pub progress: Arc<RelocationProgress>,
    pub last: Option<Result<RelocationReport, String>>,
    /// In the clock's elapsed time: before it, no split begins by itself.
    pub retry_at: Option<Duration>,
}

impl Motion {
    pub fn state(&self) -> MutexGuard<'_, MotionState> {
        self.state.lock().expect("nothing panics under this lock")
    }
}
