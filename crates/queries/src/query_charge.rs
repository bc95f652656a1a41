//! Leave to read one page of a query on one partition: whatever becomes of the page, its work is paid for.
//!
//! A page that succeeds is settled with what it costs. One that fails, or whose request is dropped because its time is up or its client is
//! gone, costs what it had done by then; and its thread, if it has one of its own, is told to stop. Only a page that was never
//! begun is free, and one on a partition that has moved, because the request is done again elsewhere.
//!
//! A page whose functions computed for longer than the page pays for costs the difference, which their tab has the budget pay.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shardlake_charge::QueryCounters;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::{PageWork, Partition};

use crate::processor_tab::ProcessorTab;
use crate::query::counters_of;
use crate::running::Running;
use shardlake_router::{Cost, Permit};

#[must_use = "what the page cost must be settled"]
pub struct PagePermit<'p> {
    running: &'p Running<'p>,
    /// `None` once it is settled.
    permit: Option<Permit<'p>>,
    work: Arc<PageWork>,
    /// What the query had done before.
    before: QueryCounters,
    /// Of the functions that the page calls.
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

    /// What the page tells of its work.
    pub fn work(&self) -> Arc<PageWork> {
        self.work.clone()
    }

    /// Where the page has had its turn at the workers: whoever had the turn before may have spent the budget.
    pub fn open_tab(&mut self, tab: Arc<ProcessorTab>, partition: &Partition) -> Result<()> {
        self.close_tab(0);
        self.tab = Some(tab);
        let Some(permit) = &mut self.permit else { return Ok(()) };
        self.running.queries.admit_again(self.running.ctx, partition, permit)
    }

    pub fn settle(mut self, cost: Cost) {
        self.close_tab(cost.charge_centi);
        if let Some(permit) = self.permit.take() {
            permit.settle(cost);
        }
    }

    /// What functions cost beyond what the page costs; the query's reply tells it.
    fn close_tab(&mut self, otherwise_centi: u64) -> u64 {
        let surcharge_centi = self.tab.take().map_or(0, |tab| tab.pay_beyond(otherwise_centi));
        self.running.surcharge_centi.fetch_add(surcharge_centi, Ordering::Relaxed);
        surcharge_centi
    }

    /// Settles a page that failed; the error says what it cost.
    pub fn failed(mut self, mut error: Error) -> Error {
        if error.kind() == ErrorKind::PartitionGone {
            self.permit = None;
        } else {
            error.meta_mut().charge_centi = self.give_up();
        }
        error
    }

    /// Settles what was done so far, and tells how much that is.
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
