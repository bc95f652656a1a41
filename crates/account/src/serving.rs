//! The way of an operation to its partition: find the owner, ask its budget, run, settle what it cost; once more where the
//! partition has moved meanwhile.
//!
//! A handle may be older than the last split, merge or move. A partition that gave up its items says so
//! ([`ErrorKind::PartitionGone`]), and in that moment the catalog names its successors: whoever asked for a key goes on there
//! without noticing; whoever named the range by its id is told.

use std::sync::Arc;
use std::time::Duration;

use shardlake_capacity::budget::{Reservation, Spent, Urgency};
use shardlake_heat::{HeatKind, HeatPlace, Sample};
use shardlake_model::{ContainerRid, Error, ErrorKind, Priority, RequestContext, Result};
use shardlake_partition::{LogicalKey, Partition};
use shardlake_routing::EpkRange;
use shardlake_stdx::Clock;

use crate::account::HeatRecording;
use crate::container_handle::ContainerEntry;
use crate::keys::partition_of;
use crate::{Account, ContainerHandle};

/// Partitions that one operation may find moved, one after the other, before it gives up.
const MOVES_MAX: usize = 8;

/// What an operation does, for budgets and heat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Read,
    Write,
    Query,
    Feed,
}

/// What an operation touches in its partition.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Touched<'a> {
    Logical(&'a LogicalKey),
    Span(&'a EpkRange),
}

/// The routing that an operation goes by.
pub(crate) struct Routing<'a> {
    account: &'a Account,
    pub entry: Arc<ContainerEntry>,
    moves: usize,
}

impl Routing<'_> {
    pub fn owner(&self, logical: &LogicalKey) -> &Arc<Partition> {
        partition_of(&self.entry, logical)
    }

    /// Whether the operation is to be done again, with the current partition map.
    pub async fn has_moved<T>(&mut self, outcome: &Result<T>) -> Result<bool> {
        let Err(error) = outcome else { return Ok(false) };
        if error.kind() != ErrorKind::PartitionGone || self.moves == MOVES_MAX {
            return Ok(false);
        }
        self.moves += 1;
        let mut versions = self.account.0.catalog_version.subscribe();
        loop {
            versions.borrow_and_update();
            let current = self.account.current_entry(&self.entry)?;
            // Sources end a moment before the catalog names their successors.
            let is_about_to_change = current.record.generation == self.entry.record.generation
                && current.map.iter().any(|partition| is_gone(partition));
            self.entry = current;
            if !is_about_to_change {
                return Ok(true);
            }
            if versions.changed().await.is_err() {
                return Ok(false);
            }
        }
    }
}

/// What an operation came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Also of a failure.
    pub charge_centi: u64,
    /// What it read or wrote.
    pub size_bytes: u64,
    pub creates: bool,
}

impl Cost {
    fn of_failure(error: &Error) -> Cost {
        Cost { charge_centi: error.meta().charge_centi, ..Cost::default() }
    }
}

/// Leave to run one operation, or one page, on a partition.
#[must_use = "what the operation cost must be settled"]
pub(crate) struct Permit<'a> {
    /// `None` where nothing is limited.
    budget: Option<Reservation>,
    /// `None` where heat is not recorded.
    heat: Option<HeatPermit<'a>>,
}

/// What heat is to know of an operation once it is settled.
struct HeatPermit<'a> {
    clock: &'a Clock,
    admitted: Duration,
    entry: &'a ContainerEntry,
    partition: &'a Partition,
    kind: OperationKind,
    touched: Touched<'a>,
    template: Option<&'a Arc<str>>,
}

impl<'a> Permit<'a> {
    /// Names the query, without its literals.
    pub fn for_query(mut self, template: &'a Arc<str>) -> Self {
        if let Some(heat) = &mut self.heat {
            heat.template = Some(template);
        }
        self
    }

    pub fn settle(self, cost: Cost) {
        if let Some(reservation) = self.budget {
            reservation.settle(cost.charge_centi);
        }
        if let Some(heat) = self.heat {
            heat.record(cost);
        }
    }

    pub fn settle_outcome<T>(self, outcome: &Result<T>, cost: impl FnOnce(&T) -> Cost) {
        self.settle(outcome.as_ref().map_or_else(Cost::of_failure, cost));
    }
}

impl HeatPermit<'_> {
    fn record(self, cost: Cost) {
        let now = self.clock.elapsed();
        let (place, is_one_key) = match self.touched {
            Touched::Logical(logical) => (HeatPlace::Key(logical), true),
            Touched::Span(span) => (HeatPlace::Span(span), false),
        };
        let kind = match self.kind {
            OperationKind::Read => HeatKind::Read,
            OperationKind::Write if cost.creates => HeatKind::Create,
            OperationKind::Write => HeatKind::Write,
            OperationKind::Query | OperationKind::Feed if is_one_key => HeatKind::Query,
            OperationKind::Query => HeatKind::FanOut,
            OperationKind::Feed => HeatKind::Feed,
        };
        let sample = Sample {
            kind,
            place,
            ru_centi: cost.charge_centi,
            size_bytes: cost.size_bytes,
            latency: now.saturating_sub(self.admitted),
            template: self.template,
        };
        self.partition.heat(&self.entry.record.container.definition.partition_key).record(now, &sample);
    }
}

/// Whether its items are in other partitions.
fn is_gone(partition: &Partition) -> bool {
    partition.check_open().is_err_and(|error| error.kind() == ErrorKind::PartitionGone)
}

pub(crate) fn was_deleted() -> Error {
    Error::new(ErrorKind::OwnerNotFound, "the container was deleted")
}

impl Account {
    pub(crate) fn routing(&self, container: &ContainerHandle) -> Routing<'_> {
        Routing { account: self, entry: container.entry.clone(), moves: 0 }
    }

    /// The entry of a container as the catalog has it now.
    pub(crate) fn current_entry(&self, entry: &ContainerEntry) -> Result<Arc<ContainerEntry>> {
        self.entry_of_rid(entry.record.container.rid)
    }

    pub(crate) fn entry_of_rid(&self, rid: ContainerRid) -> Result<Arc<ContainerEntry>> {
        self.0.catalog.load().container_of_rid(rid).cloned().ok_or_else(was_deleted)
    }

    /// Asks the partition's budget. A permit that is dropped unsettled, because the request was, costs nothing; the work of
    /// queries is charged even so (`query_charge.rs`). What the server does for itself is neither limited nor counted.
    pub(crate) fn admit<'a>(
        &'a self,
        ctx: &RequestContext,
        entry: &'a ContainerEntry,
        partition: &'a Partition,
        kind: OperationKind,
        touched: Touched<'a>,
    ) -> Result<Permit<'a>> {
        let Some(urgency) = urgency_of(ctx) else { return Ok(Permit { budget: None, heat: None }) };
        let clock = &self.0.clock;
        let admitted = (self.0.heat == HeatRecording::On).then(|| clock.elapsed());
        let now = || admitted.unwrap_or_else(|| clock.elapsed());
        let budget = entry.budget.admit(partition.range_id, urgency, now).map_err(|spent| {
            if let Some(now) = admitted {
                partition.heat(&entry.record.container.definition.partition_key).throttle(now);
            }
            too_many_requests(partition, spent)
        })?;
        let heat = admitted.map(|admitted| HeatPermit {
            clock,
            admitted,
            entry,
            partition,
            kind,
            touched,
            template: None,
        });
        Ok(Permit { budget, heat })
    }

    /// Asks once more after the operation has waited for its turn: whoever had the turn before may have spent the budget.
    pub(crate) fn admit_again(
        &self,
        ctx: &RequestContext,
        partition: &Partition,
        permit: &mut Permit<'_>,
    ) -> Result<()> {
        let (Some(urgency), Some(reservation)) = (urgency_of(ctx), &mut permit.budget) else { return Ok(()) };
        let now = self.0.clock.elapsed();
        reservation.admit_again(urgency, now).map_err(|spent| too_many_requests(partition, spent))
    }
}

/// None for what the server does for itself, which is neither limited nor counted.
pub(crate) fn urgency_of(ctx: &RequestContext) -> Option<Urgency> {
    match ctx.priority {
        Priority::System => None,
        Priority::High => Some(Urgency::High),
        Priority::Low => Some(Urgency::Low),
    }
}

/// Nothing was done and nothing is charged.
fn too_many_requests(partition: &Partition, spent: Spent) -> Error {
    let wait_ms = spent.retry_after_ms();
    let message = match spent {
        Spent::Partition(_) => format!(
            "partition key range '{}' has spent its request units: retry after {wait_ms} ms",
            partition.range_id
        ),
        Spent::Database(_) => format!(
            "the containers of the database have spent the request units that they share: retry after {wait_ms} ms"
        ),
    };
    Error::new(ErrorKind::TooManyRequests, message)
        .with_meta(partition.meta(0, 0))
        .with_retry_after_ms(wait_ms)
}
