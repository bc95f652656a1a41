//! Work of a page so far, for its charge when it fails or is abandoned.
//!
//! The page notes its reads between two reads, and once more at its end; steps of evaluation are
//! counted where they can be read at any time. The caller that waits for the page holds the other
//! end, and may stop the page.

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

    /// The work up to the last note, and all steps; `None` if the page never began.
    pub fn done(&self) -> Option<QueryStatistics> {
        let noted = *self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        Some(QueryStatistics { steps: self.meter.steps(), ..noted? })
    }

    /// Stops a page that no caller waits for: it ends as if its time were used up.
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
