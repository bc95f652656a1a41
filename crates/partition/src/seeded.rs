//! Mistakes that tests make on purpose, to see that they are noticed. Only with the feature `testing`.
//!
//! A mistake is made by the thread that asked for it, so that tests do not meet each other's: let the partition's work run on
//! the test's own thread.

use std::cell::Cell;

use crate::index::PostingOps;
use crate::keys::{self, PartitionUid};
use crate::log::entry::{ChangeKind, LogOperation};
use crate::write::Writes;

/// The part of a commit to leave out, or the place where a write panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The record of a new item.
    LostCreate,
    /// The record of a version that takes the place of another.
    LostReplacement,
    /// The removal of an item's record.
    LostDelete,
    /// Everything, though it is acknowledged.
    LostCommit,
    /// All but the first item of a commit, with everything that belongs to them.
    TornBatch,
    LostPosting,
    /// All index entries of the written items.
    LostPostings,
    /// The removal of a posting.
    LeftPosting,
    LostLogEntry,
    /// One operation of the entry.
    LostLogOperation,
    LostUniqueValue,
    LostOrdinal,
    LostVersion,
    /// When an item runs out by a time of its own.
    LostEnd,
    /// That the commit is under way, once it is queued.
    LostUnderWay,
    /// While the transaction is in the making.
    PanicWhilePlanning,
    /// The commit is queued, and the sequencer does not know of it yet.
    PanicWhileQueueing,
}

thread_local! {
    static SEEDED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// While it lasts, this thread makes a mistake.
#[derive(Debug)]
#[must_use = "the mistake is made while this lasts"]
pub struct Seeded(());

impl Seeded {
    pub fn new(mistake: Mistake) -> Seeded {
        SEEDED.set(Some(mistake));
        Seeded(())
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        SEEDED.set(None);
    }
}

fn is_seeded(mistake: Mistake) -> bool {
    SEEDED.get() == Some(mistake)
}

/// Whether a commit of this thread contradicts itself on purpose.
pub(crate) fn is_any() -> bool {
    SEEDED.get().is_some()
}

pub(crate) fn panic_if(mistake: Mistake) {
    assert!(!is_seeded(mistake), "{mistake:?} (expected by this test)");
}

/// The pending writes of a transaction.
pub(crate) struct Written<'a> {
    pub uid: PartitionUid,
    pub writes: &'a mut Writes,
    pub postings: &'a mut PostingOps,
    pub operations: &'a mut Vec<LogOperation>,
}

impl Written<'_> {
    pub fn spoil(&mut self) {
        let Some(mistake) = SEEDED.get() else { return };
        match mistake {
            Mistake::LostCreate => self.lose_records(ChangeKind::Create),
            Mistake::LostReplacement => self.lose_records(ChangeKind::Replace),
            Mistake::LostDelete => self.lose_records(ChangeKind::Delete),
            Mistake::LostCommit => {
                *self.writes = Writes::default();
                self.operations.clear();
                *self.postings = PostingOps::default();
            }
            Mistake::TornBatch => {
                for operation in self.operations.split_off(1) {
                    self.lose(&keys::with_header(self.uid, keys::ITEMS, &operation.key));
                    self.lose(&keys::ordinal_key(self.uid, operation.ordinal));
                }
            }
            Mistake::LostPosting => self.postings.forget_one(true),
            Mistake::LostPostings => *self.postings = PostingOps::default(),
            Mistake::LeftPosting => self.postings.forget_one(false),
            Mistake::LostLogOperation => drop(self.operations.pop()),
            Mistake::LostUniqueValue => self.lose_rows(keys::UNIQUE_KEYS),
            Mistake::LostOrdinal => self.lose_rows(keys::ORDINALS),
            Mistake::LostVersion => self.lose_rows(keys::VERSIONS),
            Mistake::LostEnd => self.lose_rows(keys::EXPIRY),
            Mistake::LostLogEntry
            | Mistake::LostUnderWay
            | Mistake::PanicWhilePlanning
            | Mistake::PanicWhileQueueing => {}
        }
    }

    fn lose_records(&mut self, kind: ChangeKind) {
        let lost = self.operations.iter().filter(|operation| operation.kind == kind);
        let lost: Vec<_> = lost.map(|one| keys::with_header(self.uid, keys::ITEMS, &one.key)).collect();
        lost.iter().for_each(|key| self.lose(key));
    }

    fn lose(&mut self, key: &[u8]) {
        self.writes.retain(|known, _| known != key);
    }

    fn lose_rows(&mut self, space: u8) {
        let start = keys::space_range(self.uid, space).0;
        self.writes.retain(|key, value| value.is_none() || !key.starts_with(&start));
    }
}

/// Whether a commit that is queued counts as shown.
pub(crate) fn loses_under_way() -> bool {
    is_seeded(Mistake::LostUnderWay)
}

/// Whether the entry of a commit in the log is left out.
pub(crate) fn loses_log_entry() -> bool {
    is_seeded(Mistake::LostLogEntry)
}
