//! Writes: the operations that a client asks for, as one transaction, all of them or none.
//!
//! In the order of reading:
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | a command from its arrival to its answer; its plan, operation by operation |
//! | `operations.rs` | the effect of each operation on its item |
//! | `transaction.rs` | one commit in the making: inputs, changes, results |
//! | `../index/maintain.rs` | the changes of the index |
//! | `rows.rs` | rows written so far, and those of earlier steps |
//! | `unique_keys.rs` | unique values: only where the container has unique keys |
//! | `trim.rs` | the oldest items give way: only where the container keeps the newest |
//! | `look_ahead.rs` | reads that are known before the plan |

mod look_ahead;
mod operations;
mod rows;
mod transaction;
mod trim;
mod unique_keys;

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_routing::LogicalKey;
use shardlake_storage::{PendingCommit, Seq};
use tracing::Instrument;

use crate::commit::{Done, Task, Work, Writer, acknowledge, carry_out};
use crate::core::Core;
use crate::cpu_pool::HEAVY_BYTES;
use crate::deferred::Deferred;
use crate::operation::{BatchFailure, BatchReply, CommandContext, ItemReply, Operation};
use crate::origin::Origin;
use crate::partition::Partition;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::reclaim::{LOOKS_MAX, reclaim_space, trim_for};
use crate::shape::ContainerSchema;
use crate::sizes::LogicalSize;
pub(crate) use look_ahead::{footprint, look_ahead};
#[cfg(feature = "testing")]
pub(crate) use rows::Writes;
pub(crate) use rows::{Base, Step};
pub(crate) use transaction::{ItemName, PlanInput, PlannedCommit, Switches, Transaction};
pub use trim::BEYOND_BOUNDS;

/// Bytes of bodies from which a transaction is too much for a thread that answers requests.
const MUCH_BYTES: usize = 4 * HEAVY_BYTES;

/// A write as data: the operations of one logical partition, in order, with the time and the identifiers that they take.
#[derive(Debug, Clone)]
pub struct PartitionWrite {
    pub key: LogicalKey,
    pub operations: Vec<Operation>,
    pub context: CommandContext,
}

/// Result of the operations.
pub(crate) struct Written {
    outcome: std::result::Result<Vec<ItemReply>, BatchFailure>,
    /// Charge of the operations that succeeded.
    charge_centi: u64,
    /// By how much they enlarge the logical partition.
    growth: LogicalSize,
}

impl Partition {
    /// Executes a command of one operation.
    pub async fn write(
        self: &Arc<Self>,
        shape: &Arc<ContainerSchema>,
        command: &Arc<PartitionWrite>,
    ) -> Result<ItemReply> {
        debug_assert_eq!(command.operations.len(), 1, "one operation has one reply");
        match self.execute(shape, command).await?.outcome {
            Ok(mut replies) => Ok(replies.pop().expect("one operation has one reply")),
            Err(failure) => Err(failure.error),
        }
    }

    /// Executes operations in order as one transaction: all of them or none.
    #[tracing::instrument(name = "write", level = "debug", skip_all, fields(partition = self.uid.0))]
    pub async fn execute(
        self: &Arc<Self>,
        shape: &Arc<ContainerSchema>,
        command: &Arc<PartitionWrite>,
    ) -> Result<BatchReply> {
        let core = self.core();
        let PartitionWrite { key, context, .. } = &**command;
        let writer = Writer::Passing(key, context.patience);
        let (mut reply, mut growth) = execute_once(core, shape, command, writer).await?;
        let mut looks = 0;
        while is_full(&reply) && looks < LOOKS_MAX {
            let has_room = match shape.bounds {
                // As many commits as it takes, each of which removes something.
                Some(_) => {
                    let goes_on = trim_for(core, shape, context.now, (key, growth), writer).await?;
                    looks += usize::from(!goes_on);
                    true
                }
                None => {
                    looks += 1;
                    reclaim_space(core, shape, context, key, writer).await?
                }
            };
            if !has_room {
                break;
            }
            (reply, growth) = execute_once(core, shape, command, writer).await?;
        }
        Ok(reply)
    }
}

/// Whether an operation failed because its logical partition is full.
fn is_full(reply: &BatchReply) -> bool {
    let failure = reply.outcome.as_ref().err();
    failure.is_some_and(|failure| failure.error.kind() == ErrorKind::LogicalPartitionFull)
}

/// One attempt, and by how much it enlarges the logical partition, or would.
async fn execute_once(
    core: &Arc<Core>,
    shape: &Arc<ContainerSchema>,
    write: &Arc<PartitionWrite>,
    writer: Writer<'_>,
) -> Result<(BatchReply, LogicalSize)> {
    let (now, rows, is_heavy) = (write.context.now, write.rows(), write.is_heavy());
    let task = Task { shape, now, is_decided: false, writer, is_clients: true, rows, is_heavy, base: None };
    let plan = tracing::debug_span!("plan");
    let done = carry_out(core, task, ReadSet::default(), write).instrument(plan).await?;
    let Done { outcome: Written { outcome, charge_centi, growth }, rests_on, last_lsn, commit } = done;
    let deferred = write.context.commit.deferred.as_deref();
    let reply = match (outcome, commit) {
        (Ok(mut replies), Some((lsn, commit))) => {
            match deferred {
                Some(deferred) => acknowledge_later(core, lsn, commit, deferred),
                None => acknowledge(core, lsn, commit).await?,
            }
            replies.iter_mut().for_each(|reply| reply.meta.lsn = lsn);
            BatchReply { outcome: Ok(replies), meta: core.origin().meta(charge_centi, lsn) }
        }
        (Ok(mut replies), None) => {
            let seen = replies.iter().map(|reply| reply.meta.item_lsn).max().unwrap_or(0);
            rest_on(core, rests_on, seen, deferred).await?;
            replies.iter_mut().for_each(|reply| core.tell_lsn(&mut reply.meta));
            BatchReply { outcome: Ok(replies), meta: core.meta(charge_centi, 0) }
        }
        (Err(mut failure), _) => {
            let error = &mut failure.error;
            // The error (an item exists, or not) may rest on commits that are not durable yet.
            rest_on(core, rests_on, error.meta().item_lsn.min(last_lsn), deferred).await?;
            let charge = error.meta().charge_centi.max(shape.charges.not_found().0);
            *error.meta_mut() = core.meta(charge, error.meta().item_lsn);
            let meta = core.meta(charge_centi + charge, 0);
            BatchReply { outcome: Err(failure), meta }
        }
    };
    Ok((reply, growth))
}

/// Until an answer may be given that rests on the commit `seq` and names the LSN `seen`.
async fn rest_on(core: &Arc<Core>, seq: Seq, seen: u64, deferred: Option<&Deferred>) -> Result<()> {
    match deferred {
        Some(deferred) => {
            let (uid, core) = (core.uid, core.clone());
            let met = async move { wait_to_tell(&core, seq, seen).await };
            deferred.note_met(uid, Box::pin(met));
            Ok(())
        }
        None => wait_to_tell(core, seq, seen).await,
    }
}

async fn wait_to_tell(core: &Core, seq: Seq, seen: u64) -> Result<()> {
    core.wait_for(seq).await?;
    // The task of its writer may not have been woken yet.
    core.acknowledged.note_lsn(seen);
    Ok(())
}

fn acknowledge_later(core: &Arc<Core>, lsn: u64, mut commit: PendingCommit, deferred: &Deferred) {
    // Others wait behind it.
    commit.begin();
    let (uid, core) = (core.uid, core.clone());
    deferred.note_commit(uid, Box::pin(async move { acknowledge(&core, lsn, commit).await }));
}

impl PartitionWrite {
    fn rows(&self) -> usize {
        let rows = |operation: &Operation| operation.item().map_or(0, |item| item.terms.rows());
        self.operations.iter().map(rows).sum()
    }

    fn is_heavy(&self) -> bool {
        // The size of a stored item that an operation names is not known here.
        let size =
            |operation: &Operation| operation.item().map_or(HEAVY_BYTES / 8, |item| item.members.size_bytes);
        let is_heavy = |operation: &Operation| operation.item().is_some_and(|item| item.is_heavy());
        self.operations.iter().any(is_heavy) || self.operations.iter().map(size).sum::<usize>() > MUCH_BYTES
    }

    fn add_to(&self, transaction: &mut Transaction<'_>) -> Plan<Written> {
        let mut written =
            Written { outcome: Ok(Vec::new()), charge_centi: 0, growth: LogicalSize::default() };
        let mut replies = Vec::with_capacity(self.operations.len());
        let (mut last_growth, mut answered_bytes) = (0, 0);
        let limits = &transaction.input.shape.limits;
        assert!(self.context.etags.len() >= self.operations.len(), "each operation has an etag");
        for (index, operation) in self.operations.iter().enumerate() {
            let grown_before = transaction.growth_bytes();
            let etag = self.context.etags[index];
            let mut reply = match transaction.apply(&self.context, etag, &self.key, operation) {
                Ok(reply) => reply,
                Err(Stop::Error(error)) => return written.failed(index, error, &replies),
                Err(stop) => return Err(stop),
            };
            written.charge_centi += reply.meta.charge_centi;
            if self.context.unwanted.contains(&index) {
                reply.item = None;
            }
            // The client did not send them.
            if let (Operation::Read { .. } | Operation::Patch { .. }, Some(item)) = (operation, &reply.item) {
                answered_bytes += item.json_size_bytes();
            }
            replies.push(reply);
            if answered_bytes > limits.page_size_bytes_max {
                return written.failed(index, limits.answer_too_large(), &replies);
            }
            if transaction.growth_bytes() > grown_before {
                last_growth = index;
            }
        }
        written.growth = transaction.growth();
        match transaction.keep_within_bounds(&self.key) {
            Ok(charge_centi) => written.charge_centi += charge_centi,
            Err(Stop::Error(error)) => return written.failed(last_growth, error, &replies),
            Err(stop) => return Err(stop),
        }
        match transaction.record_size_within_limits() {
            // The whole decides; the last operation that took room stands for it.
            Err(Stop::Error(error)) => written.failed(last_growth, error, &replies),
            Err(stop) => Err(stop),
            Ok(()) => {
                written.outcome = Ok(replies);
                Ok(written)
            }
        }
    }
}

impl Written {
    fn failed(mut self, index: usize, error: Error, done: &[ItemReply]) -> Plan<Written> {
        let mut failure = BatchFailure::of(index, error)?;
        failure.done_centi = done.iter().map(|reply| reply.meta.charge_centi).collect();
        self.outcome = Err(failure);
        Ok(self)
    }
}

impl Work for Arc<PartitionWrite> {
    type Outcome = (Written, Option<PlannedCommit>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        let written = self.add_to(&mut transaction)?;
        if written.outcome.is_err() || !transaction.changes_anything() {
            return Ok((written, None));
        }
        let mut commit = transaction.into_batch();
        let outcome = written.outcome.iter().flatten().find_map(|reply| reply.change.as_deref());
        if let Some(row) = self.context.commit.note.as_ref().and_then(|note| note.row(outcome)) {
            row.add_to(&mut commit.batch);
        }
        Ok((written, Some(commit)))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, shape: &ContainerSchema) -> Vec<Bytes> {
        footprint(origin, shape, &self.key, &self.operations)
    }

    async fn look_ahead(&self, core: &Core, task: &Task<'_>, reads: &mut ReadSet) -> Result<usize> {
        look_ahead(core, task.shape, reads, (&self.key, &self.operations)).await
    }
}
