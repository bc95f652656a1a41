//! Transactional batches (all or nothing, one logical partition) and bulk requests (each operation for itself).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use shardlake_document::Body;
use shardlake_host::{CheckSession, WriteBatch};
use shardlake_model::{Error, ErrorKind, PartitionKey, RequestContext, Result};
use shardlake_partition::{
    BatchFailure, BatchReply, CommandContext, CommitOptions, HEAVY_BYTES, ItemReply, LogicalKey, Operation,
    PartitionWrite, PreparedBody, extract_partition_key, prepare,
};

use crate::Items;
use crate::command::{ItemOperation, ItemRead, KeyedOperation, ReadCommand};
use shardlake_router::ContainerHandle;
use shardlake_router::{
    PartitionHandle, body_key, key_of_read, logical, mismatch, own_key_of_read, partition_of,
};

/// Bulk operations of one request in flight at once; enough to fill a group commit.
const BULK_CONCURRENCY: usize = 64;

/// How the rest of a bulk request continues after an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkOnError {
    Continue,
    Stop,
}

impl Items {
    /// Executes operations on one logical partition as one transaction. An operation may be the front end's
    /// refusal of it, which fails the batch like an error of the engine. `Err` means that the request is
    /// wrong as a whole, or that the server refuses it.
    pub fn batch(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: &PartitionKey,
        operations: Vec<Result<KeyedOperation>>,
    ) -> impl Future<Output = Result<BatchReply>> + Send {
        self.batch_with(ctx, container, key, operations, CommitOptions::default())
    }

    /// Executes a batch with the given options of its commit.
    pub async fn batch_with(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: &PartitionKey,
        operations: Vec<Result<KeyedOperation>>,
        commit: CommitOptions,
    ) -> Result<BatchReply> {
        let max = self.router().limits().batch_operations_max;
        if operations.is_empty() {
            return Err(Error::bad_request("Batch request has no operations."));
        }
        if operations.len() > max {
            return Err(Error::bad_request(format!(
                "Batch request has more operations than what is supported. The maximum is {max}"
            )));
        }
        let logical = key_of_read(container, Some(key))?;
        for keyed in operations.iter().flatten() {
            check_key_in_batch(container, &logical, keyed)?;
        }
        self.take_answer_space_for(ctx, &operations).await?;
        let is_unwanted = |keyed: &KeyedOperation| keyed.operation.is_patch() && !keyed.content;
        let places = operations.iter().enumerate();
        let unwanted = places.filter(|(_, keyed)| keyed.as_ref().is_ok_and(is_unwanted));
        let unwanted: Vec<usize> = unwanted.map(|(place, _)| place).collect();
        if operations.iter().flatten().any(|keyed| keyed.operation.is_read()) {
            // Batches that only write do not depend on the session's position.
            self.router().send(ctx, container, &logical, &CheckSession).await?;
        }
        let count = operations.len();
        let mut planned = Vec::with_capacity(count);
        let mut refused = None;
        let mut since_pause = 0;
        for (index, operation) in operations.into_iter().enumerate() {
            since_pause += operation
                .as_ref()
                .ok()
                .and_then(|keyed| keyed.operation.body())
                .map_or(0, |body| body.as_bytes().len());
            if since_pause > HEAVY_BYTES {
                since_pause = 0;
                tokio::task::yield_now().await;
            }
            match self.planned_in_batch(container, key, &logical, operation).await {
                Ok(operation) => planned.push(operation),
                Err(error) => {
                    refused = Some(BatchFailure::of(index, error)?);
                    break;
                }
            }
        }
        if let Some(failure) = refused {
            return Ok(refused_batch(partition_of(&container.entry, &logical), failure));
        }
        let context = CommandContext { commit, unwanted, ..self.command(ctx, count) };
        let write = PartitionWrite { key: logical, operations: planned, context };
        self.execute(ctx, container, write).await
    }

    /// Creates items of one logical partition as one transaction. The caller bounds their number.
    pub async fn create_all(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: PartitionKey,
        bodies: impl ExactSizeIterator<Item = Body> + Send,
        commit: CommitOptions,
    ) -> Result<BatchReply> {
        container.entry.check_takes_writes()?;
        let logical = own_key_of_read(container, Some(key))?;
        let context = CommandContext { commit, ..self.command(ctx, bodies.len()) };
        let mut operations = Vec::with_capacity(bodies.len());
        let mut since_pause = 0;
        for (index, body) in bodies.enumerate() {
            since_pause += body.as_bytes().len();
            if since_pause > HEAVY_BYTES {
                since_pause = 0;
                tokio::task::yield_now().await;
            }
            let item = prepare(body, &container.entry.shape).await;
            match item.and_then(|item| check_key_of_body(container, &logical, item)) {
                Ok(item) => operations.push(Operation::Create { item }),
                Err(error) => {
                    let failure = BatchFailure::of(index, error)?;
                    return Ok(refused_batch(partition_of(&container.entry, &logical), failure));
                }
            }
        }
        self.execute(ctx, container, PartitionWrite { key: logical, operations, context }).await
    }

    async fn execute(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        write: PartitionWrite,
    ) -> Result<BatchReply> {
        let command = WriteBatch(Arc::new(write));
        self.router().send(ctx, container, &command.0.key, &command).await
    }

    async fn planned_in_batch(
        &self,
        container: &ContainerHandle,
        key: &PartitionKey,
        logical: &LogicalKey,
        operation: Result<KeyedOperation>,
    ) -> Result<Operation> {
        Ok(match operation?.operation {
            ItemOperation::Write(write) => self.planned(container, Some(key), write).await?.1,
            ItemOperation::Read(ItemRead { item, preconditions }) => {
                let id = self.resolved(container, logical, item).await?;
                Operation::Read { id, preconditions }
            }
        })
    }

    /// Executes operations independently, each with its own key, and answers in their order. `Err` means that
    /// the request is wrong as a whole, or that the server refuses every operation.
    pub async fn bulk(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        range_id: Option<u32>,
        operations: Vec<Result<KeyedOperation>>,
        on_error: BulkOnError,
    ) -> Result<Vec<Result<ItemReply>>> {
        let max = self.router().limits().bulk_operations_max;
        if operations.is_empty() {
            return Err(Error::bad_request("Batch request has no operations."));
        }
        if operations.len() > max {
            return Err(Error::bad_request(format!(
                "Batch request has more operations than what is supported. The maximum is {max}"
            )));
        }
        if let Some(range_id) = range_id {
            check_range_of_bulk(container, range_id, &operations)?;
        }
        self.take_answer_space_for(ctx, &operations).await?;
        let answered_bytes = AtomicUsize::new(0);
        if on_error == BulkOnError::Continue {
            // Polled in order, so that operations on one partition enter its sequencer in order.
            let one = |operation| self.bulk_one(ctx, container, operation, &answered_bytes);
            let replies = operations.into_iter().map(one);
            let replies = futures::stream::iter(replies).buffered(BULK_CONCURRENCY).collect().await;
            return replies_of_bulk(replies);
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
            let reply = self.bulk_one(ctx, container, operation, &answered_bytes).await;
            failed = reply.is_err();
            replies.push(reply);
        }
        replies_of_bulk(replies)
    }

    /// Items that are read or patched may need as much as a page; items of other writes are no larger than
    /// the request.
    async fn take_answer_space_for(
        &self,
        ctx: &RequestContext,
        operations: &[Result<KeyedOperation>],
    ) -> Result<()> {
        match operations.iter().flatten().any(KeyedOperation::answers_item) {
            true => self.router().take_answer_space(ctx).await,
            false => Ok(()),
        }
    }

    async fn bulk_one(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        operation: Result<KeyedOperation>,
        answered_bytes: &AtomicUsize,
    ) -> Result<ItemReply> {
        let operation = operation?;
        let answers_item = operation.answers_item();
        let KeyedOperation { key, operation, content } = operation;
        if key.is_none() && operation.body().is_none() {
            return Err(Error::bad_request("the operation names no 'partitionKey'"));
        }
        let limits = self.router().limits();
        if answers_item && answered_bytes.load(Ordering::Relaxed) > limits.page_size_bytes_max {
            return Err(limits.answer_too_large());
        }
        let is_patch = operation.is_patch();
        let mut reply = match operation {
            ItemOperation::Read(read) => self.read(ctx, container, ReadCommand { key, read }).await?,
            ItemOperation::Write(write) => {
                let (logical, operation) = self.planned(container, key.as_ref(), write).await?;
                self.write_planned(ctx, container, &logical, operation).await?
            }
        };
        if is_patch && !content {
            reply.item = None;
        }
        if !answers_item {
            return Ok(reply);
        }
        let size_bytes = reply.item.as_ref().map_or(0, |item| item.json_size_bytes());
        let before = answered_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        let fits = before == 0 || before + size_bytes <= limits.page_size_bytes_max;
        match (fits, is_patch) {
            (true, _) => Ok(reply),
            (false, false) => Err(limits.answer_too_large()),
            // This operation is done. The following ones are not.
            (false, true) => Ok(ItemReply { item: None, ..reply }),
        }
    }
}

/// A batch with an operation that is refused before the others run. They could still fail first in the transaction, but
/// nothing is applied either way.
fn refused_batch(partition: &PartitionHandle, mut failure: BatchFailure) -> BatchReply {
    let meta = partition.meta(100, 0);
    *failure.error.meta_mut() = meta;
    BatchReply { outcome: Err(failure), meta }
}

/// Refuses a body of another logical partition.
fn check_key_of_body(
    container: &ContainerHandle,
    logical: &LogicalKey,
    item: PreparedBody,
) -> Result<PreparedBody> {
    match logical.partition_key.same(&body_key(&container.entry, &item)?) {
        true => Ok(item),
        false => Err(mismatch()),
    }
}

/// The replies of a bulk request. If the server refused every operation, its refusal is the reply of the
/// request: no operation took effect, and clients retry it as a whole.
fn replies_of_bulk(replies: Vec<Result<ItemReply>>) -> Result<Vec<Result<ItemReply>>> {
    let is_own = |reply: &Result<ItemReply>| match reply {
        Ok(_) => true,
        Err(error) => !error.kind().refuses_request() && error.kind() != ErrorKind::FailedDependency,
    };
    match replies.iter().any(is_own) {
        true => Ok(replies),
        false => Err(replies.into_iter().find_map(Result::err).expect("a request has an operation")),
    }
}

/// Refuses a batch with an operation of another logical partition.
fn check_key_in_batch(
    container: &ContainerHandle,
    logical: &LogicalKey,
    keyed: &KeyedOperation,
) -> Result<()> {
    let Some(own) = &keyed.key else { return Ok(()) };
    match key_of_read(container, Some(own)) {
        Ok(own) if own.partition_key.same(&logical.partition_key) => Ok(()),
        _ => Err(key_of_another_partition()),
    }
}

/// Refuses a bulk request with an operation outside of the range that it names. The client's ranges are then
/// out of date: it reads them again and regroups its operations.
fn check_range_of_bulk(
    container: &ContainerHandle,
    range_id: u32,
    operations: &[Result<KeyedOperation>],
) -> Result<()> {
    crate::feed::range_by_id(container, range_id)?;
    let range_of = |keyed: &KeyedOperation| {
        let logical = key_of_bulk(container, keyed)?;
        Some(partition_of(&container.entry, &logical).range_id())
    };
    match operations.iter().flatten().filter_map(range_of).find(|own| *own != range_id) {
        None => Ok(()),
        Some(own) => Err(Error::new(
            ErrorKind::PartitionGone,
            format!(
                "an operation belongs to partition key range {own}, and the request names range {range_id}: refresh the partition key ranges; nothing was done"
            ),
        )),
    }
}

/// The logical partition of an operation. An operation whose key does not fit the container fails by itself.
fn key_of_bulk(container: &ContainerHandle, keyed: &KeyedOperation) -> Option<LogicalKey> {
    match (&keyed.key, keyed.operation.body()) {
        (Some(key), _) => key_of_read(container, Some(key)).ok(),
        (None, Some(body)) => {
            let entry = &container.entry;
            Some(logical(entry, extract_partition_key(body.raw(), &entry.shape.key_paths)))
        }
        (None, None) => None,
    }
}

/// The refusal of a batch with an operation of another partition key.
pub fn key_of_another_partition() -> Error {
    Error::bad_request(
        "One or more operations within the batch request have a different partition key value than the request.",
    )
}
