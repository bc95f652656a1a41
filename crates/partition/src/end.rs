//! Why and when a partition answers no more.

use std::sync::atomic::{AtomicU8, Ordering};

use shardlake_model::{Error, ErrorKind, Result};

use crate::commit_waiters::CommitWaiters;
use crate::keys::PartitionUid;

/// Why a partition answers no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its items are in other partitions now.
    Moved = 1,
    /// Its container was deleted.
    Deleted = 2,
    /// Its items may be in other partitions: only the next start can determine that.
    InDoubt = 3,
    /// A writer panicked while it held the sequencer: the state in memory may be half changed. The
    /// stored state is not.
    Broken = 4,
}

/// Whether a partition serves, and the tasks that wait for its next change.
#[derive(Debug)]
pub(crate) struct Life {
    uid: PartitionUid,
    range_id: u32,
    /// An [`End`], or 0 while the partition serves.
    end: AtomicU8,
    pub followers: CommitWaiters,
}

impl Life {
    pub fn new(uid: PartitionUid, range_id: u32) -> Self {
        Life { uid, range_id, end: AtomicU8::new(0), followers: CommitWaiters::default() }
    }

    /// Refuses everything from now on.
    pub fn end(&self, end: End) {
        self.end.store(end as u8, Ordering::SeqCst);
        self.followers.wake();
    }

    pub fn is_over(&self) -> bool {
        self.end.load(Ordering::SeqCst) != 0
    }

    pub fn check(&self) -> Result<()> {
        let range = self.range_id;
        match self.end.load(Ordering::Acquire) {
            0 => Ok(()),
            end if end == End::Moved as u8 => Err(Error::new(
                ErrorKind::PartitionGone,
                format!(
                    "partition key range {range} does not exist any more: refresh the partition key ranges"
                ),
            )),
            end if end == End::InDoubt as u8 => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "whether partition key range {range} has moved could not be written down: restart the server"
                ),
            )),
            end if end == End::Broken as u8 => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "partition key range {range} has stopped after an internal error, without harm to what is stored: restart the server"
                ),
            )),
            _ => Err(Error::new(ErrorKind::OwnerNotFound, "the container was deleted")),
        }
    }

    /// Ends the partition if the caller is being unwound by a panic.
    fn end_if_panicking(&self) {
        if std::thread::panicking() && !self.is_over() {
            tracing::error!(
                partition = self.uid.0,
                range = self.range_id,
                "a panic in a write has stopped the partition: restart the server"
            );
            self.end(End::Broken);
        }
    }
}

/// Part of every guard of the sequencer: a panic while it is held ends the partition. An
/// asynchronous lock does not notice panics by itself, and the next writer would continue with the
/// half-changed state.
#[derive(Debug)]
pub(crate) struct EndOnPanic<L: std::ops::Deref<Target = Life>>(pub L);

impl<L: std::ops::Deref<Target = Life>> Drop for EndOnPanic<L> {
    fn drop(&mut self) {
        self.0.end_if_panicking();
    }
}
