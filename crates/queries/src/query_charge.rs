//! Permit to read one page of a query on one partition; charges the page's work whatever its outcome.
//!
//! A page that succeeds is settled with its cost. A page that fails, or whose request is dropped because
//! its time is up or its client has disconnected, costs the work done so far; and its thread, if it has its
//! own, is stopped. Two kinds of pages are free: pages that were never begun, and pages on a partition that
//! has moved, because the request is repeated elsewhere.
//!
//! A page whose functions computed for longer than the page pays for costs the difference, which their tab
//! debits from the budget.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shardlake_charge::QueryCounters;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::{PageWork, QueryStatistics};

use crate::processor_tab::ProcessorTab;
use crate::running::Running;
use shardlake_host::{Cost, Permit};
use shardlake_router::PartitionHandle;

/// Skipped entries cost a fraction, so that a key whose entries come after many others has a bearable price.
const PASSED_IN_A_POSTING: u64 = 20;

#[must_use = "what the page cost must be settled"]
pub struct PagePermit<'p> {
    running: &'p Running<'p>,
    /// `None` once it is settled.
    permit: Option<Permit<'p>>,
    work: Arc<PageWork>,
    /// The query's counters before the page.
    before: QueryCounters,
    /// The tab of the functions that the page calls.
    tab: Option<Arc<ProcessorTab>>,
}

impl<'p> PagePermit<'p> {
    pub fn new(
        running: &'p Running<'p>,
        permit: Permit<'p>,
        before: QueryCounters,
        steps: u64,
    ) -> PagePermit<'p> {
        let work = Arc::new(PageWork::after(steps));
        PagePermit { running, permit: Some(permit), work, before, tab: None }
    }

    /// The counters of the page's work.
    pub fn work(&self) -> Arc<PageWork> {
        self.work.clone()
    }

    /// Called when the page has its turn at the workers: the turn before may have spent the budget.
    pub fn open_tab(&mut self, tab: Arc<ProcessorTab>, partition: &PartitionHandle) -> Result<()> {
        self.close_tab(0);
        self.tab = Some(tab);
        let Some(permit) = &mut self.permit else { return Ok(()) };
        partition.hosted().admit_again(self.running.ctx, permit)
    }

    pub fn settle(mut self, cost: Cost) {
        assert!(self.permit.is_some(), "a page is settled once");
        self.close_tab(cost.charge_centi);
        if let Some(permit) = self.permit.take() {
            permit.settle(cost);
        }
    }

    /// The cost of functions beyond the page's other charges, to be added to the query's reply.
    fn close_tab(&mut self, otherwise_centi: u64) -> u64 {
        let surcharge_centi = self.tab.take().map_or(0, |tab| tab.pay_beyond(otherwise_centi));
        self.running.surcharge_centi.fetch_add(surcharge_centi, Ordering::Relaxed);
        surcharge_centi
    }

    /// Settles a page that failed; the error carries its charge.
    pub fn failed(mut self, mut error: Error) -> Error {
        if error.kind() == ErrorKind::PartitionGone {
            self.permit = None;
        } else {
            error.meta_mut().charge_centi = self.give_up();
        }
        error
    }

    /// Settles the work done so far, and returns its charge.
    pub fn give_up(&mut self) -> u64 {
        self.work.stop();
        let Some(permit) = self.permit.take() else { return 0 };
        let Some(done) = self.work.done() else { return 0 };
        let page = counters_of(&done, 0, false);
        let mut all = self.before.plus(page);
        let charge_centi = self.running.charge(&mut all);
        permit.settle(Cost { charge_centi, ..Cost::default() });
        charge_centi + self.close_tab(charge_centi)
    }
}

impl Drop for PagePermit<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Counters of a page whose reading was not counted before.
pub fn counters_of(statistics: &QueryStatistics, rows: u64, stands_for_index: bool) -> QueryCounters {
    // A scan instead of a usable index costs no more than the index would have.
    let scanned = match stands_for_index {
        true => (0, 0),
        false => (statistics.items_scanned, statistics.items_scanned_bytes),
    };
    QueryCounters {
        partitions: 1,
        rows,
        items: scanned.0 + statistics.items_loaded,
        item_bytes: scanned.1 + statistics.items_loaded_bytes,
        postings: statistics.postings_read + statistics.entries_passed.div_ceil(PASSED_IN_A_POSTING),
        sorted_rows: statistics.rows_sorted,
        function_calls: statistics.function_calls,
        steps: statistics.steps,
        ..QueryCounters::default()
    }
}

/// Counters of a page whose reading depends on how the result is cut into pages; this reading is not counted.
pub fn counters_of_repeated(statistics: &QueryStatistics, rows: u64) -> QueryCounters {
    QueryCounters {
        partitions: 1,
        rows,
        sorted_rows: statistics.rows_sorted,
        steps: statistics.steps,
        ..QueryCounters::default()
    }
}
