//! What workers computed for one request, until it is paid for.
//!
//! The request reads the tab when it knows what it costs otherwise, and pays the difference. A request that goes away before
//! it paid (its client hung up, its time was over) leaves the tab to the worker's side: the last one to drop it has the budget of
//! the partition pay.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shardlake_charge::ChargeTable;
use shardlake_model::RequestContext;
use shardlake_partition::Partition;
use shardlake_script::Meter;

use shardlake_router::ContainerEntry;
use shardlake_router::{Serving, urgency_of};

#[derive(Debug)]
pub struct ProcessorTab {
    meter: Meter,
    charges: ChargeTable,
    entry: Arc<ContainerEntry>,
    range_id: u32,
    /// What the server does for itself is not.
    is_counted: bool,
    is_paid: AtomicBool,
    /// What the request paid otherwise.
    otherwise_centi: AtomicU64,
}

impl ProcessorTab {
    pub fn open(
        serving: &Serving,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        partition: &Partition,
    ) -> ProcessorTab {
        ProcessorTab {
            meter: Meter::default(),
            charges: serving.charges.clone(),
            entry: entry.clone(),
            range_id: partition.range_id,
            is_counted: urgency_of(ctx).is_some(),
            is_paid: AtomicBool::new(false),
            otherwise_centi: AtomicU64::new(0),
        }
    }

    /// For the turns of the request.
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// What is to be paid beyond what the request costs otherwise, so far.
    pub fn surcharge_centi(&self, otherwise_centi: u64) -> u64 {
        self.charges.processor(self.meter.total()).0.saturating_sub(otherwise_centi)
    }

    /// The request pays so much otherwise, and the budget what is to be paid beyond it.
    pub fn pay_beyond(&self, otherwise_centi: u64) -> u64 {
        self.otherwise_centi.store(otherwise_centi, Ordering::Release);
        self.surcharge_centi(otherwise_centi)
    }

    /// The request has paid, or answers for it.
    pub fn paid(&self) {
        self.is_paid.store(true, Ordering::Release);
    }
}

impl Drop for ProcessorTab {
    fn drop(&mut self) {
        if self.is_counted && !self.is_paid.load(Ordering::Acquire) {
            self.entry
                .budget
                .debit(self.range_id, self.surcharge_centi(self.otherwise_centi.load(Ordering::Acquire)));
        }
    }
}
