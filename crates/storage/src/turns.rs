//! Turns of large commits, so that small ones never have many rows before them.
//!
//! A shard's commits keep their order, so a small commit waits for everything that was queued before it. What keeps that
//! short is that large commits wait *before* they are queued: those in the queue have [`LARGE_ROWS_IN_FLIGHT`] rows
//! together, or are a single one. Nothing overtakes anything, and each large commit gets its turn in the order of asking.
//!
//! ```text
//! large   ask ── wait for the turn ── commit ── written, turn ends ── rest as long as it took ── next
//! small                                  commit ── at most the rows of one turn before it
//! ```
//!
//! The rest is skipped where no small commit has come meanwhile: then nobody would gain by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_stdx::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::StorageError;

/// A commit of up to so many rows needs no turn. Nearly all are far below: an item has some ten to a hundred.
pub const SMALL_COMMIT_ROWS: usize = 1024;
/// Rows of the large commits that may be queued at a time; a single one may have more.
pub const LARGE_ROWS_IN_FLIGHT: usize = 8192;
/// Large commits that may wait for their turn; more are refused with [`StorageError::Overloaded`].
const WAITING_MAX: usize = 256;
/// The longest rest between two large commits.
const REST_MAX: Duration = Duration::from_millis(100);

/// Leave to have a large commit queued; dropped when it is written.
#[derive(Debug)]
#[must_use = "it is to be handed over with the commit"]
pub struct RowsTurn {
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(crate) struct LargeCommits {
    rows: Arc<Semaphore>,
    /// Those that wait, and those that may begin to.
    waiting: Semaphore,
    /// When the rest after the last one ends, in nanoseconds of the process's clock.
    rest_until: AtomicU64,
}

impl Default for LargeCommits {
    fn default() -> Self {
        LargeCommits {
            rows: Arc::new(Semaphore::new(LARGE_ROWS_IN_FLIGHT)),
            waiting: Semaphore::new(WAITING_MAX),
            rest_until: AtomicU64::new(0),
        }
    }
}

impl LargeCommits {
    /// `somebody_waited` says whether the rest is to be kept.
    pub async fn turn(
        &self,
        rows: usize,
        somebody_waited: impl Fn() -> bool,
    ) -> Result<RowsTurn, StorageError> {
        let _waiting = self.waiting.try_acquire().map_err(|_| StorageError::Overloaded)?;
        let rows = rows.min(LARGE_ROWS_IN_FLIGHT) as u32;
        let permit = self.rows.clone().acquire_many_owned(rows).await.map_err(|_| StorageError::Closed)?;
        while let Some(rest) = self.rest_left().filter(|_| somebody_waited()) {
            tokio::time::sleep(rest).await;
        }
        Ok(RowsTurn { permit })
    }

    pub fn try_turn(&self, rows: usize, somebody_waited: impl Fn() -> bool) -> Option<RowsTurn> {
        let rows = rows.min(LARGE_ROWS_IN_FLIGHT) as u32;
        let permit = self.rows.clone().try_acquire_many_owned(rows).ok()?;
        let rests = self.rest_left().is_some() && somebody_waited();
        (!rests).then_some(RowsTurn { permit })
    }

    /// Notes how long small commits had to wait for a group with large ones.
    pub fn rest_after(&self, took: Duration) {
        let until = Clock::System.elapsed() + took.min(REST_MAX);
        self.rest_until.store(until.as_nanos() as u64, Ordering::Relaxed);
    }

    fn rest_left(&self) -> Option<Duration> {
        let until = Duration::from_nanos(self.rest_until.load(Ordering::Relaxed));
        until.checked_sub(Clock::System.elapsed()).filter(|rest| !rest.is_zero())
    }
}
