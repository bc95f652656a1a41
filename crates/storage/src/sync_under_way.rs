//! Since when a sync is under way, so that a store which takes no writes is visible before its writers give up.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One sync at a time.
#[derive(Default)]
pub(crate) struct SyncUnderWay(Mutex<Option<Instant>>);

impl SyncUnderWay {
    pub fn begin(&self) {
        *self.since() = Some(Instant::now());
    }

    pub fn end(&self) {
        *self.since() = None;
    }

    /// Zero if no sync is under way.
    pub fn duration(&self) -> Duration {
        self.since().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
