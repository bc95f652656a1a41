//! Acknowledged state of a partition: its last LSN and its totals, for reports.
//!
//! The sequencer runs ahead of storage: its totals count commits that may still fail. Here each
//! queued commit leaves its totals with its place in the shard's order, and they count once the
//! shard has acknowledged that place. The count does not depend on the commit's writer, whose
//! client may have disconnected.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use shardlake_storage::Seq;

use crate::log::entry::Counters;

#[derive(Debug)]
pub(crate) struct Acknowledged {
    /// Highest LSN known to be acknowledged; replies and session tokens carry it.
    lsn: AtomicU64,
    items: AtomicU64,
    size_bytes: AtomicU64,
    /// LSN of the last commit that was queued.
    last_queued: AtomicU64,
    /// In the order of their commits.
    queued: Mutex<VecDeque<Queued>>,
}

/// The totals after a commit.
#[derive(Debug)]
struct Queued {
    seq: Seq,
    lsn: u64,
    counters: Counters,
}

impl Acknowledged {
    pub fn new(lsn: u64, counters: Counters) -> Self {
        Acknowledged {
            lsn: AtomicU64::new(lsn),
            items: AtomicU64::new(counters.items),
            size_bytes: AtomicU64::new(counters.size_bytes),
            last_queued: AtomicU64::new(lsn),
            queued: Mutex::default(),
        }
    }

    pub fn lsn(&self) -> u64 {
        self.lsn.load(Ordering::SeqCst)
    }

    /// Whether commits are queued that were not known to be acknowledged at the last look.
    pub fn is_behind(&self) -> bool {
        self.lsn() < self.last_queued.load(Ordering::SeqCst)
    }

    /// A reader or writer has found out that an LSN is acknowledged.
    pub fn note_lsn(&self, lsn: u64) {
        self.lsn.fetch_max(lsn, Ordering::SeqCst);
    }

    pub fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Notes a commit that was queued; the sequencer is held.
    pub fn queue(&self, seq: Seq, lsn: u64, counters: Counters) {
        // A panic under this lock has at worst left a commit out of the totals.
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = |last: &Queued| last.seq < seq && last.lsn < lsn;
        assert!(queued.back().is_none_or(is_next), "commits count in their order");
        queued.push_back(Queued { seq, lsn, counters });
        self.last_queued.store(lsn, Ordering::SeqCst);
    }

    /// Counts every commit up to a place in the shard's order.
    pub fn follow(&self, acknowledged: Seq) {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        while queued.front().is_some_and(|first| first.seq <= acknowledged) {
            last = queued.pop_front();
        }
        // Under the lock, so that totals follow each other in the order of their commits.
        if let Some(Queued { lsn, counters, .. }) = last {
            self.items.store(counters.items, Ordering::Relaxed);
            self.size_bytes.store(counters.size_bytes, Ordering::Relaxed);
            self.note_lsn(lsn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counters(items: u64) -> Counters {
        Counters { items, size_bytes: items * 100, next_ordinal: items }
    }

    #[test]
    fn totals_count_when_the_shard_has_come_to_their_commit() {
        let acknowledged = Acknowledged::new(4, counters(10));
        acknowledged.queue(7, 5, counters(11));
        acknowledged.queue(9, 6, counters(12));
        assert_eq!((acknowledged.lsn(), acknowledged.items()), (4, 10), "both may still fail");
        acknowledged.follow(8);
        assert_eq!((acknowledged.lsn(), acknowledged.items(), acknowledged.size_bytes()), (5, 11, 1100));
        acknowledged.follow(9);
        acknowledged.follow(8);
        assert_eq!((acknowledged.lsn(), acknowledged.items()), (6, 12), "nothing goes back");
    }

    proptest! {
        #[test]
        fn totals_are_those_of_the_last_acknowledged_commit(
            gaps in prop::collection::vec(1..4u64, 1..30), looks in prop::collection::vec(0..120u64, 0..20),
        ) {
            let acknowledged = Acknowledged::new(10, counters(5));
            let (mut seq, mut commits) = (0, vec![(0, 10, 5)]);
            for (number, gap) in gaps.iter().enumerate() {
                seq += gap;
                let (lsn, items) = (11 + number as u64, 5 + (number as u64 * 7) % 4);
                acknowledged.queue(seq, lsn, counters(items));
                commits.push((seq, lsn, items));
            }
            let mut furthest = 0;
            for look in looks {
                acknowledged.follow(look);
                furthest = furthest.max(look);
                let (_, lsn, items) = *commits.iter().rfind(|(seq, ..)| *seq <= furthest).expect("the first");
                prop_assert_eq!((acknowledged.lsn(), acknowledged.items()), (lsn, items));
                prop_assert_eq!(acknowledged.size_bytes(), items * 100);
                prop_assert_eq!(acknowledged.is_behind(), furthest < seq);
            }
        }
    }

    #[test]
    #[should_panic(expected = "commits count in their order")]
    fn a_commit_behind_a_later_one_is_no_commit() {
        let acknowledged = Acknowledged::new(0, counters(0));
        acknowledged.queue(7, 1, counters(1));
        acknowledged.queue(7, 2, counters(2));
    }
}
