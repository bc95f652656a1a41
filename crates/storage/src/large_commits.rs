//! Permits of large commits, so that small ones never have many rows before them.
//!
//! A shard's commits keep their order, so a small commit waits for every commit that was queued
//! before it. This wait is short because large commits wait *before* they are queued: the large
//! commits in the queue have [`LARGE_ROWS_IN_FLIGHT`] rows together, or are a single one. No commit
//! overtakes another, and large commits get permits in the order of asking.
//!
//! ```text
//! large   ask ── wait for a permit ── commit ── written, permit ends ── rest as long as it took ── next
//! small                                    commit ── at most the rows of one permit before it
//! ```
//!
//! The rest is skipped where no small commit has come meanwhile: then it would help no writer.
//!
//! A commit of more than [`OVERSIZE_COMMIT_ROWS`] holds up small ones for longer than the rest of a
//! large one makes good. Where small commits have waited for one, the next oversize commit waits
//! for [`OVERSIZE_REST`] times as long, at most [`OVERSIZE_REST_MAX`], so that about one small
//! commit in so many meets an oversize one whose rest is below that maximum. Large commits do not
//! wait for the rest of oversize ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_stdx::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::StorageError;

/// A commit of up to so many rows needs no permit. Nearly all are far below: an item has some ten
/// to a hundred.
pub const SMALL_COMMIT_ROWS: usize = 1024;
/// Rows of the large commits that may be queued at a time; a single one may have more.
pub const LARGE_ROWS_IN_FLIGHT: usize = 8192;
/// A commit of more rows needs an oversize permit. A replace of 25,000 index entries has no more.
pub const OVERSIZE_COMMIT_ROWS: usize = 50_000;
/// The rest after an oversize commit, as a multiple of the time that it took.
const OVERSIZE_REST: u32 = 100;
/// The longest rest between two oversize commits.
const OVERSIZE_REST_MAX: Duration = Duration::from_secs(3);
/// Oversize commits that may wait for a permit; more are refused with [`StorageError::Overloaded`].
const OVERSIZE_WAITING_MAX: usize = 16;
/// Large commits that may wait for a permit; more are refused with [`StorageError::Overloaded`].
const WAITING_MAX: usize = 256;
/// The longest rest between two large commits.
const REST_MAX: Duration = Duration::from_millis(100);

const _: () = assert!(SMALL_COMMIT_ROWS < LARGE_ROWS_IN_FLIGHT, "a small commit needs no permit");
const _: () = assert!(LARGE_ROWS_IN_FLIGHT < OVERSIZE_COMMIT_ROWS, "an oversize commit takes all permits");

/// Leave to have a large commit queued; dropped when it is written.
#[derive(Debug)]
#[must_use = "it is to be handed over with the commit"]
pub struct RowsPermit {
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    permit: OwnedSemaphorePermit,
    oversize: Option<OwnedSemaphorePermit>,
}

impl RowsPermit {
    pub(crate) fn is_oversize(&self) -> bool {
        self.oversize.is_some()
    }
}

#[derive(Debug)]
pub(crate) struct LargeCommits {
    rows: Arc<Semaphore>,
    /// Those that wait, and those that may begin to.
    waiting: Semaphore,
    /// When the rest after the last one ends, in nanoseconds of the process's clock.
    rest_until: AtomicU64,
    /// One oversize commit at a time, from the end of the last one's rest until it is written.
    oversize: Arc<Semaphore>,
    oversize_waiting: Semaphore,
    /// When the rest after the last oversize commit ends.
    oversize_rest_until: AtomicU64,
}

impl Default for LargeCommits {
    fn default() -> Self {
        LargeCommits {
            rows: Arc::new(Semaphore::new(LARGE_ROWS_IN_FLIGHT)),
            waiting: Semaphore::new(WAITING_MAX),
            rest_until: AtomicU64::new(0),
            oversize: Arc::new(Semaphore::new(1)),
            oversize_waiting: Semaphore::new(OVERSIZE_WAITING_MAX),
            oversize_rest_until: AtomicU64::new(0),
        }
    }
}

impl LargeCommits {
    /// `somebody_waited` decides whether the rest is kept.
    pub async fn turn(
        &self,
        rows: usize,
        somebody_waited: impl Fn() -> bool,
    ) -> Result<RowsPermit, StorageError> {
        let oversize = if rows > OVERSIZE_COMMIT_ROWS { Some(self.oversize_turn().await?) } else { None };
        let _waiting = self.waiting.try_acquire().map_err(|_| StorageError::Overloaded)?;
        let rows = rows.min(LARGE_ROWS_IN_FLIGHT) as u32;
        let permit = self.rows.clone().acquire_many_owned(rows).await.map_err(|_| StorageError::Closed)?;
        while let Some(rest) = left_until(&self.rest_until).filter(|_| somebody_waited()) {
            tokio::time::sleep(rest).await;
        }
        Ok(RowsPermit { permit, oversize })
    }

    async fn oversize_turn(&self) -> Result<OwnedSemaphorePermit, StorageError> {
        let _waiting = self.oversize_waiting.try_acquire().map_err(|_| StorageError::Overloaded)?;
        let permit = self.oversize.clone().acquire_owned().await.map_err(|_| StorageError::Closed)?;
        while let Some(rest) = left_until(&self.oversize_rest_until) {
            tokio::time::sleep(rest).await;
        }
        Ok(permit)
    }

    pub fn try_turn(&self, rows: usize, somebody_waited: impl Fn() -> bool) -> Option<RowsPermit> {
        let oversize = match rows > OVERSIZE_COMMIT_ROWS {
            true if left_until(&self.oversize_rest_until).is_some() => return None,
            true => Some(self.oversize.clone().try_acquire_owned().ok()?),
            false => None,
        };
        let rows = rows.min(LARGE_ROWS_IN_FLIGHT) as u32;
        let permit = self.rows.clone().try_acquire_many_owned(rows).ok()?;
        let rests = left_until(&self.rest_until).is_some() && somebody_waited();
        (!rests).then_some(RowsPermit { permit, oversize })
    }

    /// Notes how long small commits had to wait for a group with large ones.
    pub fn rest_after(&self, took: Duration) {
        let until = Clock::System.elapsed() + took.min(REST_MAX);
        self.rest_until.store(until.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Notes how long small commits had to wait for an oversize one.
    pub fn rest_after_oversize(&self, took: Duration) {
        let rest = (took * OVERSIZE_REST).min(OVERSIZE_REST_MAX);
        let until = Clock::System.elapsed() + rest;
        self.oversize_rest_until.store(until.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// How long it is until a rest ends.
fn left_until(until: &AtomicU64) -> Option<Duration> {
    let until = Duration::from_nanos(until.load(Ordering::Relaxed));
    until.checked_sub(Clock::System.elapsed()).filter(|rest| !rest.is_zero())
}
