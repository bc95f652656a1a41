//! The way of an operation to its partition: find the owner, ask its budget, run, settle what it cost; once more where the
//! partition has moved meanwhile.
//!
//! A handle may be older than the last split, merge or move. A partition that gave up its items says so
//! ([`ErrorKind::PartitionGone`]), and in that moment the catalog names its successors: whoever asked for a key goes on there
//! without noticing; whoever named the range by its id is told.

use std::sync::Arc;

use shardlake_cluster::budget::{Refusal, Reservation, Urgency};
use shardlake_model::{ContainerRid, Error, ErrorKind, Priority, RequestContext, Result};
use shardlake_partition::{LogicalKey, Partition};
use shardlake_routing::EpkRange;

use crate::container_handle::ContainerEntry;
use crate::keys::partition_of;
use crate::{Account, ContainerHandle};

/// Partitions that one operation may find moved, one after the other, before it gives up.
const MOVES_MAX: usize = 8;
/// Looks at the catalog while it is about to change.
const YIELDS_MAX: usize = 10_000;

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

    /// Whether the operation is to be done again, by the routing of now.
    pub fn has_moved<T>(&mut self, outcome: &Result<T>) -> Result<bool> {
        let Err(error) = outcome else { return Ok(false) };
        if error.kind() != ErrorKind::PartitionGone || self.moves == MOVES_MAX {
            return Ok(false);
        }
        self.moves += 1;
        for _ in 0..YIELDS_MAX {
            let current = self.account.current_entry(&self.entry)?;
            // Sources end a moment before the catalog names their successors.
            let is_about_to_change = current.generation == self.entry.generation
                && current.map.iter().any(|partition| partition.check_open().is_err());
            self.entry = current;
            if !is_about_to_change {
                break;
            }
            std::thread::yield_now();
        }
        Ok(true)
    }
}

/// Leave to run one operation, or one page, on a partition.
#[must_use = "what the operation cost must be settled"]
pub(crate) struct Permit<'a> {
    _partition: &'a Partition,
    /// `None` where nothing is limited.
    budget: Option<Reservation>,
}

impl Permit<'_> {
    /// What the operation came to: its charge, also that of a failure, and the bytes that it read or wrote.
    pub fn settle(self, charge_centi: u64, _size_bytes: u64) {
        if let Some(reservation) = self.budget {
            reservation.settle(charge_centi);
        }
    }

    /// Settles a failure; whoever succeeded has yet to find out the cost.
    pub fn unless_failed<T>(self, outcome: Result<T>) -> Result<(Self, T)> {
        match outcome {
            Ok(reply) => Ok((self, reply)),
            Err(error) => {
                self.settle(error.meta().charge_centi, 0);
                Err(error)
            }
        }
    }

    pub fn settle_outcome<T>(self, outcome: &Result<T>, cost: impl FnOnce(&T) -> (u64, u64)) {
        match outcome {
            Ok(reply) => {
                let (charge_centi, size_bytes) = cost(reply);
                self.settle(charge_centi, size_bytes);
            }
            Err(error) => self.settle(error.meta().charge_centi, 0),
        }
    }
}

impl Account {
    pub(crate) fn routing(&self, container: &ContainerHandle) -> Routing<'_> {
        Routing { account: self, entry: container.entry.clone(), moves: 0 }
    }

    /// The entry of a container as the catalog has it now.
    pub(crate) fn current_entry(&self, entry: &ContainerEntry) -> Result<Arc<ContainerEntry>> {
        self.entry_of_rid(entry.container.rid)
    }

    pub(crate) fn entry_of_rid(&self, rid: ContainerRid) -> Result<Arc<ContainerEntry>> {
        let catalog = self.0.catalog.load();
        let mut entries = catalog.databases.values().flat_map(|owner| owner.containers.values());
        let found = entries.find(|entry| entry.container.rid == rid).cloned();
        found.ok_or_else(|| Error::new(ErrorKind::OwnerNotFound, "the container was deleted"))
    }

    /// Asks the partition's budget. A permit that is dropped unsettled, because the request was, costs nothing.
    pub(crate) fn admit<'a>(
        &self,
        ctx: &RequestContext,
        entry: &ContainerEntry,
        partition: &'a Partition,
        _kind: OperationKind,
        _touched: Touched<'_>,
    ) -> Result<Permit<'a>> {
        let urgency = match ctx.priority {
            Priority::System => return Ok(Permit { _partition: partition, budget: None }),
            Priority::High => Urgency::High,
            Priority::Low => Urgency::Low,
        };
        let clock = &self.0.clock;
        let budget = entry.budget.admit(partition.range_id, urgency, || clock.elapsed());
        let budget = budget.map_err(|refusal| too_many_requests(partition, refusal))?;
        Ok(Permit { _partition: partition, budget })
    }
}

/// Nothing was done and nothing is charged.
fn too_many_requests(partition: &Partition, refusal: Refusal) -> Error {
    let message = format!(
        "partition key range '{}' has spent its request units: retry after {} ms",
        partition.range_id, refusal.retry_after_ms
    );
    Error::new(ErrorKind::TooManyRequests, message)
        .with_meta(partition.meta(0, 0))
        .with_retry_after_ms(refusal.retry_after_ms)
}
