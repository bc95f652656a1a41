//! Versions that have ended, kept for the change feed of all versions and deletes: which are there, and since when.
//!
//! Where the container asks for it, an operation that ends a version stores its record next to the
//! items, under the item's key and the LSN of the version, in the same commit. So the version that
//! an operation of the log wrote is either the live item or such a row. Compaction removes the row
//! with the operation that ended the version, when that operation is older than the retention time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::log::marks::LogMarks;

/// The marks of the log, with those that are not stored yet.
#[derive(Debug)]
pub(crate) struct KeptPast {
    marks: Mutex<Arc<LogMarks>>,
    /// The next commit stores them.
    is_unsaved: AtomicBool,
    /// 0 where versions are not kept.
    retention_ms: AtomicU64,
    /// Before this nothing more is old enough for compaction.
    next_compaction_ms: AtomicU64,
}

impl KeptPast {
    pub fn new(marks: LogMarks) -> Self {
        KeptPast {
            marks: Mutex::new(Arc::new(marks)),
            is_unsaved: AtomicBool::new(false),
            retention_ms: AtomicU64::new(0),
            next_compaction_ms: AtomicU64::new(0),
        }
    }

    fn guard(&self) -> MutexGuard<'_, Arc<LogMarks>> {
        // The holder of the lock replaces the whole value.
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read after a snapshot was taken, the marks hold for that snapshot: they change before the
    /// log does.
    pub fn marks(&self) -> Arc<LogMarks> {
        self.guard().clone()
    }

    /// Only for the holder of the sequencer.
    pub fn set_marks(&self, marks: LogMarks) {
        *self.guard() = Arc::new(marks);
    }

    pub fn keeps_versions(&self) -> bool {
        self.retention_ms.load(Ordering::Acquire) > 0
    }

    pub fn retention(&self) -> Duration {
        Duration::from_millis(self.retention_ms.load(Ordering::Acquire))
    }

    pub fn next_compaction_ms(&self) -> u64 {
        self.next_compaction_ms.load(Ordering::Acquire)
    }

    pub fn set_next_compaction_ms(&self, milliseconds: u64) {
        self.next_compaction_ms.store(milliseconds, Ordering::Release);
    }

    /// Whether the next commit stores the marks.
    pub fn has_unsaved(&self) -> bool {
        self.is_unsaved.load(Ordering::Acquire)
    }

    /// The marks that the next commit is to store, if any. The sequencer is held.
    pub fn take_unsaved(&self) -> Option<Arc<LogMarks>> {
        self.is_unsaved.swap(false, Ordering::AcqRel).then(|| self.marks())
    }

    /// They were not stored.
    pub fn give_back(&self, marks: Option<Arc<LogMarks>>) {
        if marks.is_some() {
            self.is_unsaved.store(true, Ordering::Release);
        }
    }

    /// From now on versions that end above `lsn` are kept for so long, or not at all. Only for the
    /// holder of the sequencer.
    pub fn keep_versions(&self, retention: Option<Duration>, lsn: u64) {
        let milliseconds = retention.map_or(0, |retention| retention.as_millis() as u64);
        self.retention_ms.store(milliseconds, Ordering::Release);
        self.set_next_compaction_ms(0);
        let mut marks = LogMarks::clone(&self.marks());
        if marks.keeps_versions() != (milliseconds > 0) {
            marks.keep_versions_from((milliseconds > 0).then_some(lsn));
            self.set_marks(marks);
            self.is_unsaved.store(true, Ordering::Release);
        }
    }
}
