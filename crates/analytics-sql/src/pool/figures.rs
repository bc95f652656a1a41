//! Counts of queries, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_stdx::DurationHistogram;

use crate::protocol::{Failure, FailureKind, Statistics};

/// Outcomes in metrics, in the order of [`Figures::outcomes`].
pub const OUTCOMES: [&str; 7] =
    ["done", "refused", "limited", "timed_out", "cancelled", "not_available", "failed"];

#[derive(Debug, Default)]
pub struct Figures {
    outcomes: [AtomicU64; OUTCOMES.len()],
    seconds: DurationHistogram,
    memory_bytes_most: AtomicU64,
}

impl Figures {
    /// Queries by outcome.
    pub fn outcomes(&self) -> [u64; OUTCOMES.len()] {
        std::array::from_fn(|at| self.outcomes[at].load(Ordering::Relaxed))
    }

    /// Times from the request to the end of the answer.
    pub fn seconds(&self) -> &DurationHistogram {
        &self.seconds
    }

    /// The most memory that one query's operators have held.
    pub fn memory_bytes_most(&self) -> u64 {
        self.memory_bytes_most.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) {
        self.count("limited");
    }

    pub(super) fn ended(&self, outcome: Result<&Statistics, &Failure>, time: Duration) {
        self.seconds.observe(time);
        match outcome {
            Ok(statistics) => {
                self.memory_bytes_most.fetch_max(statistics.memory_bytes, Ordering::Relaxed);
                self.count("done");
            }
            Err(failure) => self.count(match failure.kind {
                FailureKind::Statement | FailureKind::VersionGone | FailureKind::SessionNotAvailable => {
                    "refused"
                }
                FailureKind::NeedsTooMuch | FailureKind::TooLarge | FailureKind::Busy => "limited",
                FailureKind::TimedOut => "timed_out",
                FailureKind::Cancelled => "cancelled",
                FailureKind::NotEnabled
                | FailureKind::NotReady
                | FailureKind::NotFollowing
                | FailureKind::OutOfReach => "not_available",
                FailureKind::Damaged | FailureKind::Lost | FailureKind::Internal => "failed",
            }),
        }
    }

    fn count(&self, outcome: &str) {
        let at = OUTCOMES.iter().position(|name| *name == outcome).expect("one of the outcomes");
        self.outcomes[at].fetch_add(1, Ordering::Relaxed);
    }
}
