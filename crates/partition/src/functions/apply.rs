//! One commit of a function's writes with its progress.
//!
//! A write whose key has the batch's progress already is left out. So a batch that is sent again writes
//! the rest, if there is one, and nothing twice.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::Body;
use shardlake_model::{Error, Result};

use super::batch::{
    FunctionBatch, FunctionOperation, FunctionOutcome, FunctionReply, FunctionWrite, RefusedWrite,
};
use super::progress::{Parts, progress_key};
use crate::commit::{Done, Task, Work, Writer, acknowledge, carry_out};
use crate::copies::pass_gates;
use crate::core::Core;
use crate::cpu_pool::{HEAVY_BYTES, offload};
use crate::keys;
use crate::operation::{CommandContext, Operation, PreparedBody};
use crate::origin::Origin;
use crate::partition_key::extract_partition_key;
use crate::prepare::prepare_body;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::shape::ContainerSchema;
use crate::write::{PlannedCommit, Transaction};

/// Applies writes in one commit, and returns when it is durable. A caller that is dropped does not learn
/// whether it took place; repeating it does no harm.
pub(crate) async fn apply_function(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    command: &CommandContext,
    batch: &FunctionBatch,
) -> Result<FunctionReply> {
    check(core, batch)?;
    let (writes, is_heavy) = match prepared(shape, batch).await? {
        Ok(writes) => (writes, batch.size_bytes() > HEAVY_BYTES),
        Err(refused) => {
            let outcome = FunctionOutcome::Refused(refused);
            return Ok(FunctionReply { outcome, meta: core.meta(0, 0) });
        }
    };
    let work = Arc::new(FunctionWrites {
        function: batch.function,
        progress: progress_key(core.uid, batch.function, &batch.span),
        upto: batch.upto,
        partition: core.epk_range.clone(),
        command: command.clone(),
        writes,
    });
    let prefixes = work.writes.iter().map(|ready| keys::logical_prefix(core.uid, &ready.write.key));
    let places = pass_gates(core, prefixes.collect(), command).await?;
    let task = Task {
        is_decided: false,
        shape,
        now: command.now,
        // It has passed the gates.
        writer: Writer::Holder,
        is_clients: false,
        rows: work.rows_of_commit(),
        is_heavy,
        base: None,
    };
    let Done { outcome, rests_on, commit, .. } = carry_out(core, task, ReadSet::default(), &work).await?;
    drop(places);
    let (outcome, charge_centi) = outcome;
    let lsn = commit.as_ref().map_or(0, |(lsn, _)| *lsn);
    match commit {
        Some((lsn, commit)) => acknowledge(core, lsn, commit).await?,
        // A refusal, or writes that are there, may be by a commit that is not durable yet.
        None => core.wait_for(rests_on).await?,
    }
    Ok(FunctionReply { outcome, meta: core.meta(charge_centi, lsn) })
}

fn check(core: &Core, batch: &FunctionBatch) -> Result<()> {
    let (writes, size_bytes) = (batch.writes.len(), batch.size_bytes());
    if writes > FunctionBatch::WRITES_MAX || writes > 1 && size_bytes > FunctionBatch::BYTES_MAX {
        return Err(Error::bad_request(format!(
            "a function writes at most {} items and {} bytes at a time, and these are {writes} items and {size_bytes} bytes: use smaller batches of changes",
            FunctionBatch::WRITES_MAX,
            FunctionBatch::BYTES_MAX
        )));
    }
    match batch.writes.iter().all(|write| core.epk_range.contains(&write.key.epk)) {
        true => Ok(()),
        false => Err(Error::internal("a write of a function was sent to another partition than its key's")),
    }
}

/// A write ready for its commit.
#[derive(Debug)]
struct ReadyWrite {
    place: u32,
    write: FunctionWrite,
    operation: Operation,
}

/// The writes by logical partition, each in the order of its writes; or the first that is refused.
async fn prepared(
    shape: &Arc<ContainerSchema>,
    batch: &FunctionBatch,
) -> Result<std::result::Result<Vec<ReadyWrite>, RefusedWrite>> {
    let (shape, writes, is_heavy) = (shape.clone(), batch.writes.clone(), batch.size_bytes() > HEAVY_BYTES);
    let prepare = move || prepare_all(&shape, writes);
    if is_heavy { offload(prepare).await } else { Ok(prepare()) }
}

fn prepare_all(
    shape: &ContainerSchema,
    writes: Vec<FunctionWrite>,
) -> std::result::Result<Vec<ReadyWrite>, RefusedWrite> {
    let mut ready = Vec::with_capacity(writes.len());
    for (place, mut write) in (0u32..).zip(writes) {
        let operation = prepare_write(shape, &mut write).map_err(|error| RefusedWrite::new(place, &error))?;
        ready.push(ReadyWrite { place, write, operation });
    }
    // Stable: writes to one logical partition keep their order.
    ready.sort_by_cached_key(|ready| keys::logical_prefix(keys::PartitionUid(0), &ready.write.key));
    Ok(ready)
}

fn prepare_write(shape: &ContainerSchema, write: &mut FunctionWrite) -> Result<Operation> {
    let key = &write.key.partition_key;
    let item = |body: &mut Vec<u8>| -> Result<PreparedBody> {
        let body = Body::from_stored(std::mem::take(body));
        let body = body.map_err(|error| Error::bad_request(error.to_string()))?;
        match extract_partition_key(body.raw(), &shape.key_paths).same(key) {
            true => prepare_body(body, shape),
            false => Err(Error::bad_request("a write of a function has another partition key than its item")),
        }
    };
    Ok(match &mut write.operation {
        FunctionOperation::Create { body } => Operation::Create { item: item(body)? },
        FunctionOperation::Upsert { body, preconditions } => {
            Operation::Upsert { item: item(body)?, preconditions: std::mem::take(preconditions) }
        }
        FunctionOperation::Replace { id, body, preconditions } => Operation::Replace {
            id: std::mem::take(id),
            item: item(body)?,
            preconditions: std::mem::take(preconditions),
        },
        FunctionOperation::Patch { id, operations, preconditions } => Operation::Patch {
            id: std::mem::take(id),
            operations: std::mem::take(operations),
            condition: None,
            preconditions: std::mem::take(preconditions),
        },
        FunctionOperation::Delete { id, preconditions } => {
            Operation::Delete { id: std::mem::take(id), preconditions: std::mem::take(preconditions) }
        }
    })
}

impl RefusedWrite {
    fn new(place: u32, error: &Error) -> RefusedWrite {
        RefusedWrite { place, kind: error.kind(), reason: error.message().to_owned() }
    }
}

/// The writes of one commit, by logical partition in the order of the keys.
#[derive(Debug)]
struct FunctionWrites {
    function: u32,
    /// Key of its progress.
    progress: Bytes,
    upto: u64,
    partition: shardlake_routing::KeyRange,
    command: CommandContext,
    writes: Vec<ReadyWrite>,
}

impl FunctionWrites {
    fn rows_of_commit(&self) -> usize {
        let rows = |ready: &ReadyWrite| ready.operation.item().map_or(1, |item| item.terms.rows());
        self.writes.iter().map(rows).sum()
    }

    /// The charge and the number of writes left out, or the first write that is refused.
    fn add_to(
        &self,
        transaction: &mut Transaction<'_>,
        progress: &Parts,
    ) -> Plan<std::result::Result<(u64, u32), RefusedWrite>> {
        transaction.set_origin(self.function);
        let (mut charge_centi, mut left_out) = (0, 0);
        let due = |ready: &&ReadyWrite| progress.upto(&ready.write.key.epk) < self.upto;
        let mut writes = self.writes.iter().filter(due).peekable();
        let count = self.writes.iter().filter(due).count();
        left_out += (self.writes.len() - count) as u32;
        while let Some(ready) = writes.next() {
            let done = transaction.apply(&self.command, ready.write.etag, &ready.write.key, &ready.operation);
            match done {
                Ok(reply) => charge_centi += reply.meta.charge_centi,
                Err(stop) => return refused(ready, stop),
            }
            let prefix = |ready: &ReadyWrite| keys::logical_prefix(keys::PartitionUid(0), &ready.write.key);
            let is_last = writes.peek().is_none_or(|next| prefix(next) != prefix(ready));
            if is_last && let Err(stop) = transaction.record_size_within_limits() {
                return refused(ready, stop);
            }
        }
        Ok(Ok((charge_centi, left_out)))
    }
}

/// A refusal of one write. All else stops the plan.
fn refused(ready: &ReadyWrite, stop: Stop) -> Plan<std::result::Result<(u64, u32), RefusedWrite>> {
    match stop {
        Stop::Error(error) if !error.kind().refuses_request() => {
            Ok(Err(RefusedWrite::new(ready.place, &error)))
        }
        stop => Err(stop),
    }
}

impl Work for Arc<FunctionWrites> {
    type Outcome = ((FunctionOutcome, u64), Option<PlannedCommit>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        let progress = match transaction.get(&self.progress)? {
            Some(stored) => Parts::decode(&stored)?,
            None => Parts::default(),
        };
        let (charge_centi, left_out) = match self.add_to(&mut transaction, &progress)? {
            Ok(applied) => applied,
            // Everything added so far is dropped with the transaction.
            Err(refused) => return Ok(((FunctionOutcome::Refused(refused), 0), None)),
        };
        let outcome = (FunctionOutcome::Applied { left_out }, charge_centi);
        if !transaction.changes_anything() {
            return Ok((outcome, None));
        }
        let advanced = progress.advanced(&self.partition, self.upto);
        transaction.write(self.progress.clone(), Some(advanced.encode()));
        Ok((outcome, Some(transaction.into_batch())))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        let of_writes = self.writes.iter().flat_map(|ready| {
            let key = &ready.write.key;
            let item = keys::item_key(origin.uid, key, ready.operation.id());
            [item.into(), keys::size_key(origin.uid, key).into()]
        });
        std::iter::once(self.progress.clone()).chain(of_writes).collect()
    }
}
