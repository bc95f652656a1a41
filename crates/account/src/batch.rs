//! Transactional batches (all or nothing, one logical partition) and bulk requests (each operation for itself).

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use shardlake_model::{Error, ErrorKind, Preconditions, RequestContext, Result};
use shardlake_partition::{
    BatchReply, HEAVY_BYTES, ItemReply, LogicalKey, Operation, Outcome, PreparedBody, prepare,
};

use crate::items::{check_session, patch_operation};
use crate::{Account, ContainerHandle, KeyInput, Patch};
use shardlake_serving::{Cost, OperationKind, Touched};
use shardlake_serving::{body_key, key_of_read, key_of_write, logical};

/// Bulk operations of one request in flight at once; enough to fill a group commit.
const BULK_CONCURRENCY: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    Create,
    Upsert,
    Replace,
    Read,
    Delete,
    Patch,
}

#[derive(Debug, Clone)]
pub struct BatchOperation {
    pub kind: BatchKind,
    pub id: Option<String>,
    /// JSON text of the item, for creates, upserts and replaces.
    pub body: Option<Vec<u8>>,
    pub patch: Option<Patch>,
    /// JSON array text; bulk operations carry their own key.
    pub partition_key: Option<String>,
    pub preconditions: Preconditions,
}

/// What the rest of a bulk request does after an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkOnError {
    Continue,
    Stop,
}

impl Account {
    /// Executes operations on one logical partition as one transaction. `Err` is for a request that is wrong as a whole.
    pub async fn batch(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: KeyInput<'_>,
        operations: Vec<BatchOperation>,
    ) -> Result<BatchReply> {
        let max = self.limits().batch_operations_max;
        if operations.is_empty() {
            return Err(Error::bad_request("Batch request has no operations."));
        }
        if operations.len() > max {
            return Err(Error::bad_request(format!(
                "Batch request has more operations than what is supported. The maximum is {max}"
            )));
        }
        let logical = key_of_read(container, Some(key))?;
        let _room = self.room_for(ctx, size_of(&operations)).await?;
        self.take_space_for_reads(ctx, &operations).await?;
        let mut routing = self.routing(container);
        loop {
            let is_there = check_session(ctx, &routing.entry, routing.owner(&logical));
            if !routing.has_moved(&is_there).await? {
                is_there?;
                break;
            }
        }
        let count = operations.len();
        let mut planned = Vec::with_capacity(count);
        let mut refused = None;
        let mut since_pause = 0;
        for (index, operation) in operations.into_iter().enumerate() {
            since_pause += operation.body.as_ref().map_or(0, Vec::len);
            if since_pause > HEAVY_BYTES {
                since_pause = 0;
                tokio::task::yield_now().await;
            }
            match self.plan(container, key, &logical, operation).await {
                Ok(operation) => planned.push(operation),
                Err(error) => {
                    refused = Some((index, error));
                    break;
                }
            }
        }
        if let Some((index, error)) = refused {
            // The operations before it could still fail first in the transaction, but nothing is applied either way.
            let meta = routing.owner(&logical).meta(100, 0);
            return Ok(BatchReply { outcome: Err(shardlake_partition::BatchFailure { index, error }), meta });
        }
        let command = self.command(ctx, count);
        loop {
            let partition = routing.owner(&logical);
            let touched = Touched::Logical(&logical);
            let permit = self.admit(ctx, &routing.entry, partition, OperationKind::Write, touched)?;
            let outcome = partition.execute(&routing.entry.shape, &command, &logical, &planned).await;
            permit.settle_outcome(&outcome, cost_of_batch);
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    /// Checks one operation of a batch against the batch's key.
    async fn plan(
        &self,
        container: &ContainerHandle,
        key: KeyInput<'_>,
        logical: &LogicalKey,
        operation: BatchOperation,
    ) -> Result<Operation> {
        if let Some(own) = &operation.partition_key {
            let own = key_of_read(container, Some(KeyInput(own)))?;
            if !own.partition_key.same(&logical.partition_key) {
                return Err(mismatch());
            }
        }
        let (operation, body_key) = self.operation(container, Some(key), logical, operation).await?;
        match body_key {
            Some(body_key) if !body_key.partition_key.same(&logical.partition_key) => Err(mismatch()),
            _ => Ok(operation),
        }
    }

    /// The operation in the partition's terms, and the key that its body carries where it has one.
    async fn operation(
        &self,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        logical: &LogicalKey,
        operation: BatchOperation,
    ) -> Result<(Operation, Option<LogicalKey>)> {
        let BatchOperation { kind, id, body, patch, preconditions, .. } = operation;
        let id = match id {
            Some(id) => Some(self.resolve_id(container, logical, &id).await?),
            None => None,
        };
        let needs_id = || Error::bad_request("the operation names no 'id'");
        Ok(match kind {
            BatchKind::Create => {
                let item = body_of(container, body).await?;
                let body_key = key_of_write(container, key, &item)?;
                (Operation::Create { item }, Some(body_key))
            }
            BatchKind::Upsert => {
                let item = body_of(container, body).await?;
                let body_key = key_of_write(container, key, &item)?;
                (Operation::Upsert { item, preconditions }, Some(body_key))
            }
            BatchKind::Replace => {
                let item = body_of(container, body).await?;
                let body_key = key_of_write(container, key, &item)?;
                (Operation::Replace { id: id.ok_or_else(needs_id)?, item, preconditions }, Some(body_key))
            }
            BatchKind::Read => (Operation::Read { id: id.ok_or_else(needs_id)?, preconditions }, None),
            BatchKind::Delete => (Operation::Delete { id: id.ok_or_else(needs_id)?, preconditions }, None),
            BatchKind::Patch => {
                let patch =
                    patch.ok_or_else(|| Error::bad_request("a patch operation needs 'operations'"))?;
                (patch_operation(container, id.ok_or_else(needs_id)?, patch, preconditions)?, None)
            }
        })
    }

    /// Executes operations independently, each with its own key, and answers in their order.
    pub async fn bulk(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        range_id: Option<u32>,
        operations: Vec<BatchOperation>,
        on_error: BulkOnError,
    ) -> Result<Vec<Result<ItemReply>>> {
        let max = self.limits().bulk_operations_max;
        if operations.is_empty() {
            return Err(Error::bad_request("Batch request has no operations."));
        }
        if operations.len() > max {
            return Err(Error::bad_request(format!(
                "Batch request has more operations than what is supported. The maximum is {max}"
            )));
        }
        if let Some(range_id) = range_id {
            crate::feed::range_by_id(container, range_id)?;
        }
        let _room = self.room_for(ctx, size_of(&operations)).await?;
        self.take_space_for_reads(ctx, &operations).await?;
        let read_bytes = AtomicUsize::new(0);
        if on_error == BulkOnError::Continue {
            // Polled in order, so that operations on one partition take its sequencer in order.
            let one = |operation| self.bulk_one(ctx, container, operation, &read_bytes);
            let replies = operations.into_iter().map(one);
            return Ok(futures::stream::iter(replies).buffered(BULK_CONCURRENCY).collect().await);
        }
        let mut replies: Vec<Result<ItemReply>> = Vec::with_capacity(operations.len());
        let mut failed = false;
        for operation in operations {
            if failed {
                replies.push(Err(Error::new(
                    ErrorKind::FailedDependency,
                    "an earlier operation of the request failed",
                )));
                continue;
            }
            let reply = self.bulk_one(ctx, container, operation, &read_bytes).await;
            failed = reply.is_err();
            replies.push(reply);
        }
        Ok(replies)
    }

    /// What is read may be as much as a page; what is written is no more than was sent.
    async fn take_space_for_reads(&self, ctx: &RequestContext, operations: &[BatchOperation]) -> Result<()> {
        match operations.iter().any(|operation| operation.kind == BatchKind::Read) {
            true => self.take_answer_space(ctx).await,
            false => Ok(()),
        }
    }

    async fn bulk_one(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        operation: BatchOperation,
        read_bytes: &AtomicUsize,
    ) -> Result<ItemReply> {
        let own_key = operation.partition_key.clone();
        let key = own_key.as_deref().map(KeyInput);
        let logical = match (key, &operation.body) {
            (Some(key), _) => key_of_read(container, Some(key))?,
            (None, Some(_)) => {
                let item = body_of(container, operation.body.clone()).await?;
                logical(&container.entry, body_key(&container.entry, &item)?)
            }
            (None, None) => return Err(Error::bad_request("the operation names no 'partitionKey'")),
        };
        let (operation, body_key) = self.operation(container, key, &logical, operation).await?;
        let logical = body_key.unwrap_or(logical);
        if let Operation::Read { id, preconditions } = &operation {
            let limits = self.limits();
            if read_bytes.load(Ordering::Relaxed) > limits.page_size_bytes_max {
                return Err(limits.too_much_read());
            }
            let reply = self.read(ctx, container, &logical, id, preconditions).await?;
            let size_bytes = reply.item.as_ref().map_or(0, |item| item.json_size_bytes());
            let before = read_bytes.fetch_add(size_bytes, Ordering::Relaxed);
            let fits = before == 0 || before + size_bytes <= limits.page_size_bytes_max;
            return if fits { Ok(reply) } else { Err(limits.too_much_read()) };
        }
        self.write(ctx, container, &logical, operation).await
    }
}

fn cost_of_batch(reply: &BatchReply) -> Cost {
    let replies = || reply.outcome.iter().flatten();
    let sizes = replies().filter_map(|reply| reply.item.as_ref()).map(|item| item.json_size_bytes() as u64);
    Cost {
        charge_centi: reply.meta.charge_centi,
        size_bytes: sizes.sum(),
        creates: replies().any(|reply| reply.outcome == Outcome::Created),
    }
}

async fn body_of(container: &ContainerHandle, body: Option<Vec<u8>>) -> Result<PreparedBody> {
    let body = body.ok_or_else(|| Error::bad_request("the operation has no 'resourceBody'"))?;
    prepare(&body, &container.entry.shape).await
}

/// Bytes of all bodies together.
fn size_of(operations: &[BatchOperation]) -> usize {
    operations.iter().filter_map(|operation| operation.body.as_ref()).map(Vec::len).sum()
}

fn mismatch() -> Error {
    Error::new(
        ErrorKind::PartitionKeyMismatch,
        "PartitionKey extracted from document doesn't match the one specified in the header",
    )
}
