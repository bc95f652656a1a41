//! Lowest LSNs that followers of the log hold, for the partition that they follow.
//!
//! | caller | effect of a hold at an LSN |
//! |---|---|
//! | compaction | removes nothing above it |
//! | the sweep of expired items | removes only items that were written up to it |
//! | a write that takes the place of an expired item | keeps the ended version, where that is above it |
//!
//! The account derives them from the holds in the catalog. A hold is a lower bound: a follower may
//! be further than its hold.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is held.
const NOT_HELD: u64 = u64::MAX;

/// The LSNs up to which all followers of a partition have read; `None` where there is no follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldLsns {
    /// Entries above are needed.
    pub entries: Option<u64>,
    /// Versions of expired items above are needed.
    pub expired: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Holds {
    entries: AtomicU64,
    expired: AtomicU64,
}

impl Default for Holds {
    fn default() -> Self {
        Holds { entries: AtomicU64::new(NOT_HELD), expired: AtomicU64::new(NOT_HELD) }
    }
}

impl Holds {
    pub fn set(&self, held: HeldLsns) {
        self.entries.store(held.entries.unwrap_or(NOT_HELD), Ordering::Release);
        self.expired.store(held.expired.unwrap_or(NOT_HELD), Ordering::Release);
    }

    /// Entries up to here may be compacted.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Expired items that were written up to here may be removed; `None` where all may.
    pub fn expired(&self) -> Option<u64> {
        let expired = self.expired.load(Ordering::Acquire);
        (expired != NOT_HELD).then_some(expired)
    }
}
