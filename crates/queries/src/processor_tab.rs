//! Processor time that workers used for one request, until it is paid for.
//!
//! The request reads the tab when its other costs are known, and pays the difference. If the request is
//! dropped before it paid (its client disconnected, its time was over), the last holder of the tab debits the
//! partition's budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shardlake_charge::ChargeTable;
use shardlake_model::RequestContext;
use shardlake_script::Meter;

use shardlake_host::urgency_of;
use shardlake_router::ContainerEntry;
use shardlake_router::{PartitionHandle, Serving};

#[derive(Debug)]
pub struct ProcessorTab {
    meter: Meter,
    charges: ChargeTable,
    entry: Arc<ContainerEntry>,
    range_id: u32,
    /// False for the server's own requests, which are not charged.
    is_counted: bool,
    is_paid: AtomicBool,
    /// The request's other charges, already paid.
    otherwise_centi: AtomicU64,
}

impl ProcessorTab {
    pub fn open(
        serving: &Serving,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        partition: &PartitionHandle,
    ) -> ProcessorTab {
        ProcessorTab {
            meter: Meter::default(),
            charges: serving.charges().clone(),
            entry: entry.clone(),
            range_id: partition.range_id(),
            is_counted: urgency_of(ctx).is_some(),
            is_paid: AtomicBool::new(false),
            otherwise_centi: AtomicU64::new(0),
        }
    }

    /// For the turns of the request.
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// The charge so far beyond the request's other charges.
    pub fn surcharge_centi(&self, otherwise_centi: u64) -> u64 {
        self.charges.processor(self.meter.total()).0.saturating_sub(otherwise_centi)
    }

    /// Records the request's other charges; returns the charge beyond them.
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
