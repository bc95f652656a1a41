//! What a page has done so far, for whoever charges it when it fails or nobody waits for it any more.
//!
//! The page notes what it has read between two reads, and at its end whatever that is; steps of evaluation are counted where
//! they can be read at any time. Who waits for the page holds the other end, and may stop it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_sql::Meter;

use super::QueryStatistics;

#[derive(Debug, Default)]
pub struct PageWork {
    meter: Arc<Meter>,
    /// `None` before the page has begun.
    statistics: Mutex<Option<QueryStatistics>>,
    is_stopped: AtomicBool,
}

impl PageWork {
    /// With steps that were made before the page: of preparing its query.
    pub fn after(steps: u64) -> PageWork {
        let work = PageWork::default();
        work.meter.add(steps);
        work
    }

    /// What was done up to the last note, and all steps; `None` if the page never began.
    pub fn done(&self) -> Option<QueryStatistics> {
        let noted = *self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        Some(QueryStatistics { steps: self.meter.steps(), ..noted? })
    }

    /// Nobody waits for the page any more: it ends as if its time were used up.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub(super) fn note(&self, statistics: &QueryStatistics) {
        *self.statistics.lock().unwrap_or_else(PoisonError::into_inner) = Some(*statistics);
    }
}
