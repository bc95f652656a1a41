//! Permits to run an operation: its partition's budget is asked before it and settled after it, and the heat is recorded.

use std::sync::Arc;
use std::time::Duration;

use shardlake_capacity::budget::{Reservation, Spent, Urgency};
use shardlake_heat::{HeatKind, HeatPlace, Sample};
use shardlake_model::{Error, ErrorKind, Priority, RequestContext, Result};
use shardlake_partition::{LogicalKey, Partition};
use shardlake_routing::KeyRange;

use crate::HeatRecording;
use crate::hosted::Hosted;

/// Kind of an operation, for budgets and heat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Read,
    Write,
    Query,
    Feed,
}

/// The logical partition or the span of keys that an operation touches in its physical partition.
#[derive(Debug, Clone, Copy)]
pub enum Touched<'a> {
    Logical(&'a LogicalKey),
    Span(&'a KeyRange),
}

/// Cost of an operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Also set for failures.
    pub charge_centi: u64,
    /// Bytes read or written.
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
pub struct Permit<'a> {
    /// `None` where nothing is limited.
    budget: Option<Reservation>,
    /// `None` where heat is not recorded.
    heat: Option<HeatPermit<'a>>,
}

/// Data that heat needs from an operation when it is settled.
struct HeatPermit<'a> {
    admitted: Duration,
    is_of_client: bool,
    hosted: &'a Hosted,
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
        let now = self.hosted.container().environment.clock.elapsed();
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
        let latency = now.saturating_sub(self.admitted);
        if self.kind == OperationKind::Write && self.is_of_client {
            self.hosted.partition().note_write(latency);
        }
        let sample = Sample {
            kind,
            place,
            ru_centi: cost.charge_centi,
            size_bytes: cost.size_bytes,
            latency,
            template: self.template,
        };
        self.hosted.partition().heat(&self.hosted.schema().key_definition).record(now, &sample);
    }
}

impl Hosted {
    /// Asks the partition's budget. A permit that is dropped unsettled, because its request was dropped,
    /// costs nothing. The work of queries is charged nevertheless (`query_charge.rs`). The server's own work
    /// is neither limited nor counted.
    pub fn admit<'a>(
        &'a self,
        ctx: &RequestContext,
        kind: OperationKind,
        touched: Touched<'a>,
    ) -> Result<Permit<'a>> {
        let Some(urgency) = urgency_of(ctx) else { return Ok(Permit { budget: None, heat: None }) };
        let (partition, container) = (self.partition(), self.container());
        let is_of_client = ctx.priority != Priority::Background;
        if is_of_client {
            partition.note_client();
        }
        let environment = &container.environment;
        let admitted = (environment.heat == HeatRecording::On).then(|| environment.clock.elapsed());
        let now = || admitted.unwrap_or_else(|| environment.clock.elapsed());
        let budget = container.budget.admit(partition.range_id, urgency, now).map_err(|spent| {
            if let Some(now) = admitted {
                partition.heat(&container.schema.key_definition).throttle(now);
            }
            too_many_requests(partition, spent)
        })?;
        let heat = admitted.map(|admitted| HeatPermit {
            admitted,
            is_of_client,
            hosted: self,
            kind,
            touched,
            template: None,
        });
        Ok(Permit { budget, heat })
    }

    /// Asks again after the operation has waited for its permit, because the previous holder may have spent the budget.
    pub fn admit_again(&self, ctx: &RequestContext, permit: &mut Permit<'_>) -> Result<()> {
        let (Some(urgency), Some(reservation)) = (urgency_of(ctx), &mut permit.budget) else { return Ok(()) };
        let now = self.container().environment.clock.elapsed();
        reservation.admit_again(urgency, now).map_err(|spent| too_many_requests(self.partition(), spent))
    }
}

/// Urgency of a client's operation; `None` for the server's own work, which is neither limited nor counted.
pub fn urgency_of(ctx: &RequestContext) -> Option<Urgency> {
    match ctx.priority {
        Priority::System => None,
        Priority::High => Some(Urgency::High),
        Priority::Low | Priority::Background => Some(Urgency::Low),
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
