//! Rests between the pieces of a step, so that requests have the machine first.
//!
//! Each piece of work is some milliseconds long. The rest after it follows from the latency of clients' writes (the storage's
//! background pace), within these bounds:
//!
//! | | share of the thread's time |
//! |---|---|
//! | no request in the last 100 ms | all |
//! | requests | at least a quarter |
//! | requests, and the table is more than 60 s behind | at least a half |
//! | a view is older than 5 s | all: it keeps the storage from reclaiming |

use std::time::Duration;

use shardlake_router::{PacedWork, Serving};
use shardlake_stdx::Clock;

const BEHIND: Duration = Duration::from_secs(60);
const VIEW_AGE_MAX: Duration = Duration::from_secs(5);

/// The rests of a step.
pub struct Rests {
    work: PacedWork,
    viewed: Duration,
}

impl Rests {
    /// Begins a step on this thread, for a table that is so far behind.
    pub fn begin(router: &Serving, behind: Duration) -> Rests {
        Rests::of(router.stores().paced_work(1), behind)
    }

    /// Begins work of this thread.
    pub fn of(work: PacedWork, behind: Duration) -> Rests {
        let times = if behind > BEHIND { 1 } else { 3 };
        let work = work.on_its_own_thread().resting_at_most(times);
        Rests { work, viewed: Clock::System.elapsed() }
    }

    /// The step reads a new view from now on.
    pub fn note_view(&mut self) {
        self.viewed = Clock::System.elapsed();
    }

    /// Called after each piece.
    pub async fn pause(&mut self) {
        let age = Clock::System.elapsed().saturating_sub(self.viewed);
        if age < VIEW_AGE_MAX {
            self.work.pause().await;
        }
    }
}
