//! Holds of followers on the change log of a container: how far back the log is kept for each.
//!
//! A hold is a lower bound. The exact progress of a follower is stored with its work; its hold moves
//! after that, at most each ten seconds. All holds that move are stored in one batch.

use serde::{Deserialize, Serialize};
use shardlake_model::ContainerRid;

use crate::PlaceRecord;

/// A follower of a container's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Holder {
    Projection(u32),
    /// Items derived from the container's.
    Copy(u32),
    /// An analytical table: expired items are kept for it as well.
    Analytics(u32),
    /// A container that gets another partition key.
    Rekey(u32),
    /// A region that gets the container's changes.
    Region(u32),
}

impl Holder {
    pub(crate) const FIRST: Holder = Holder::Projection(0);
    pub(crate) const LAST: Holder = Holder::Region(u32::MAX);

    /// The two numbers of its key.
    pub(crate) fn numbers(self) -> [u32; 2] {
        match self {
            Holder::Projection(number) => [1, number],
            Holder::Copy(number) => [2, number],
            Holder::Analytics(number) => [3, number],
            Holder::Rekey(number) => [4, number],
            Holder::Region(number) => [5, number],
        }
    }

    /// Whether the removal of expired items waits for it.
    pub fn needs_expired(self) -> bool {
        matches!(self, Holder::Analytics(_))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogHold {
    pub container: ContainerRid,
    pub holder: Holder,
    /// Parts of the hash space, and the last LSN that the holder needs no more.
    pub position: Vec<PlaceRecord>,
    /// When it moved last, in milliseconds since the Unix epoch.
    pub moved_ms: u64,
    pub bound: HoldBound,
    pub state: HoldState,
}

impl LogHold {
    pub fn new(
        container: ContainerRid,
        holder: Holder,
        position: Vec<PlaceRecord>,
        moved_ms: u64,
    ) -> LogHold {
        LogHold { container, holder, position, moved_ms, bound: HoldBound::default(), state: HoldState::Held }
    }

    pub fn is_held(&self) -> bool {
        self.state == HoldState::Held
    }
}

/// How long the log is kept for a holder that does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldBound {
    /// Entries of one partition above the hold.
    pub entries: u64,
    /// Age of the oldest of them, in milliseconds.
    pub age_ms: u64,
}

impl Default for HoldBound {
    fn default() -> Self {
        HoldBound { entries: 5_000_000, age_ms: 24 * 3600 * 1000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldState {
    Held,
    /// The holder was too slow: the log is not kept for it any more, and it has to compare itself
    /// with the items.
    Lost,
}
