//! Work of a page so far, for its charge when it fails or is abandoned.
//!
//! The page notes its reads between two reads, and once more at its end; steps of evaluation are
//! counted where they can be read at any time. The caller that waits for the page holds the other
//! end, and may stop the page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use shardlake_sql::Meter;

/// Work of a page; charges and metrics are computed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueryStatistics {
    pub postings_read: u64,
    /// Entries met in the order of an index that are of items out of scope, and items that were put in its order instead of
    /// being met in it.
    pub entries_passed: u64,
    /// Items loaded because the index named them.
    pub items_loaded: u64,
    pub items_loaded_bytes: u64,
    /// Items read in key order.
    pub items_scanned: u64,
    pub items_scanned_bytes: u64,
    pub rows: u64,
    pub rows_bytes: u64,
    /// Rows that were sorted rather than read in order.
    pub rows_sorted: u64,
    /// Calls of user-defined functions that rows needed.
    pub function_calls: u64,
    /// Steps of evaluation, and of preparing the query.
    pub steps: u64,
}

impl QueryStatistics {
    pub fn add(&mut self, page: &QueryStatistics) {
        self.postings_read += page.postings_read;
        self.entries_passed += page.entries_passed;
        self.items_loaded += page.items_loaded;
        self.items_loaded_bytes += page.items_loaded_bytes;
        self.items_scanned += page.items_scanned;
        self.items_scanned_bytes += page.items_scanned_bytes;
        self.rows += page.rows;
        self.rows_bytes += page.rows_bytes;
        self.rows_sorted += page.rows_sorted;
        self.function_calls += page.function_calls;
        self.steps += page.steps;
    }
}

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
