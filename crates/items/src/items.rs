//! Operations on single items.

use std::sync::Arc;

use shardlake_document::PatchOperation;
use shardlake_model::{Error, ErrorKind, PartitionKey, Preconditions, RequestContext, Result};
use shardlake_partition::{
    CommandContext, CommitOptions, ItemReply, LogicalKey, Operation, Outcome, Partition, PartitionWrite,
    prepare, validate_item_id,
};

use crate::Items;
use crate::command::{ItemRead, ItemWrite, Patch, ReadCommand, WriteCommand};
use shardlake_document::ItemName;
use shardlake_router::{
    ContainerEntry, ContainerHandle, Cost, OperationKind, Touched, key_of_read, key_of_write, own_key_of_read,
};

impl Items {
    /// Creates, upserts, replaces, patches or deletes one item; no trigger runs.
    pub async fn write_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        command: WriteCommand,
    ) -> Result<ItemReply> {
        let (logical, operation) = self.planned(container, command.key.as_ref(), command.write).await?;
        self.write_noting(ctx, container, &logical, (operation, command.commit)).await
    }

    pub async fn read(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        command: ReadCommand,
    ) -> Result<ItemReply> {
        let logical = own_key_of_read(container, command.key)?;
        let ItemRead { item, preconditions } = command.read;
        let id = self.resolved(container, &logical, item).await?;
        self.read_planned(ctx, container, &logical, &id, &preconditions).await
    }

    /// A write in the partition's terms, and its logical partition. `key` is the key in the request.
    pub async fn planned(
        &self,
        container: &ContainerHandle,
        key: Option<&PartitionKey>,
        write: ItemWrite,
    ) -> Result<(LogicalKey, Operation)> {
        let shape = &container.entry.shape;
        Ok(match write {
            ItemWrite::Create { body } => {
                let item = prepare(body, shape).await?;
                (key_of_write(container, key, &item)?, Operation::Create { item })
            }
            ItemWrite::Upsert { body, preconditions } => {
                let item = prepare(body, shape).await?;
                (key_of_write(container, key, &item)?, Operation::Upsert { item, preconditions })
            }
            ItemWrite::Replace { item: name, body, preconditions } => {
                let item = prepare(body, shape).await?;
                let logical = key_of_write(container, key, &item)?;
                let id = self.resolved(container, &logical, name).await?;
                (logical, Operation::Replace { id, item, preconditions })
            }
            ItemWrite::Patch { item, patch, preconditions } => {
                let logical = key_of_read(container, key)?;
                let id = self.resolved(container, &logical, item).await?;
                (logical, patch_operation(container, id, patch, preconditions)?)
            }
            ItemWrite::Delete { item, preconditions } => {
                let logical = key_of_read(container, key)?;
                let id = self.resolved(container, &logical, item).await?;
                (logical, Operation::Delete { id, preconditions })
            }
            ItemWrite::Change { item, change } => {
                let logical = key_of_read(container, key)?;
                let id = self.resolved(container, &logical, item).await?;
                validate_item_id(&id, &shape.limits)?;
                (logical, Operation::Change { id, change })
            }
        })
    }

    pub async fn read_planned(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        logical: &LogicalKey,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let command = self.command(ctx, 0);
        let mut routing = self.router().routing(container);
        loop {
            let partition = routing.owner(logical);
            let is_there = check_session(ctx, &routing.entry, partition);
            if routing.has_moved(&is_there).await? {
                continue;
            }
            is_there?;
            let partition = routing.owner(logical);
            let touched = Touched::Logical(logical);
            let permit = self.router().admit(ctx, &routing.entry, partition, OperationKind::Read, touched)?;
            let outcome = partition.read(&routing.entry.shape, &command, logical, id, preconditions).await;
            permit.settle_outcome(&outcome, cost_of_item);
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    /// The id of an item in the logical partition of a key.
    pub async fn item_id(
        &self,
        container: &ContainerHandle,
        key: Option<&PartitionKey>,
        item: ItemName,
    ) -> Result<String> {
        let logical = key_of_read(container, key)?;
        self.resolved(container, &logical, item).await
    }

    pub async fn resolved(
        &self,
        container: &ContainerHandle,
        logical: &LogicalKey,
        item: ItemName,
    ) -> Result<String> {
        match item {
            ItemName::Id(id) => Ok(id.into_string()),
            ItemName::Ordinal(ordinal) => Box::pin(self.id_of_ordinal(container, logical, ordinal)).await,
        }
    }

    async fn id_of_ordinal(
        &self,
        container: &ContainerHandle,
        logical: &LogicalKey,
        ordinal: u64,
    ) -> Result<String> {
        let mut routing = self.router().routing(container);
        let id = loop {
            let id = routing.owner(logical).id_of_ordinal(logical, ordinal).await;
            if !routing.has_moved(&id).await? {
                break id?;
            }
        };
        id.ok_or_else(no_such_item)
    }

    pub fn write_planned(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        logical: &LogicalKey,
        operation: Operation,
    ) -> impl Future<Output = Result<ItemReply>> + Send {
        self.write_noting(ctx, container, logical, (operation, CommitOptions::default()))
    }

    async fn write_noting(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        logical: &LogicalKey,
        (operation, commit): (Operation, CommitOptions),
    ) -> Result<ItemReply> {
        let context = CommandContext { commit, ..self.command(ctx, 1) };
        let command = Arc::new(PartitionWrite { key: logical.clone(), operations: vec![operation], context });
        let mut routing = self.router().routing(container);
        loop {
            let partition = routing.owner(logical);
            let touched = Touched::Logical(logical);
            let permit =
                self.router().admit(ctx, &routing.entry, partition, OperationKind::Write, touched)?;
            let outcome = partition.write(&routing.entry.shape, &command).await;
            permit.settle_outcome(&outcome, cost_of_item);
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    pub fn command(&self, ctx: &RequestContext, writes: usize) -> CommandContext {
        CommandContext {
            now: ctx.now,
            consistency: ctx.consistency,
            etags: (0..writes).map(|_| self.router().random().guid()).collect(),
            patience: ctx.deadline.saturating_sub(self.router().clock().elapsed()),
            unwanted: Vec::new(),
            commit: CommitOptions::default(),
        }
    }
}

pub fn no_such_item() -> Error {
    Error::new(ErrorKind::NotFound, "Entity with the specified id does not exist in the system.")
}

/// The cost of an operation on one item.
pub(crate) fn cost_of_item(reply: &ItemReply) -> Cost {
    let size_bytes = reply.item.as_ref().map_or(0, |item| item.json_size_bytes() as u64);
    Cost { charge_centi: reply.meta.charge_centi, size_bytes, creates: reply.outcome == Outcome::Created }
}

/// Refuses a patch that the reference refuses for any item.
pub fn patch_operation(
    container: &ContainerHandle,
    id: String,
    patch: Patch,
    preconditions: Preconditions,
) -> Result<Operation> {
    let shape = &container.entry.shape;
    let max = shape.limits.patch_operations_max;
    if patch.operations.is_empty() {
        return Err(Error::bad_request("a patch needs at least one operation"));
    }
    if patch.operations.len() > max {
        return Err(Error::bad_request(format!("The number of patch operations can't exceed '{max}'")));
    }
    for path in patch.operations.iter().flat_map(PatchOperation::paths) {
        let protected = |name: &str| name == "id" || shardlake_document::is_system_property(name);
        if path.first().is_none_or(|name| protected(name)) {
            return Err(Error::bad_request(format!(
                "a patch may not change '/{}': the id and system properties belong to the server",
                path.join("/")
            )));
        }
        // Neither the key itself, nor an object that holds it, nor anything below it.
        if shape.key_paths.iter().any(|key| key.0.iter().zip(path).all(|(a, b)| a == b)) {
            return Err(Error::bad_request(format!(
                "a patch may not change the partition key '/{}'",
                path.join("/")
            )));
        }
    }
    validate_item_id(&id, &shape.limits)?;
    let Patch { operations, condition } = patch;
    Ok(Operation::Patch { id, operations, condition, preconditions })
}

/// Refuses to read behind the session's position. With one copy of the data this happens only with a token of
/// another life of this container, such as before a backup was restored. Tokens of an earlier container with
/// the same name are ignored. A position in an ancestor of this range counts, too.
pub fn check_session(ctx: &RequestContext, entry: &ContainerEntry, partition: &Arc<Partition>) -> Result<()> {
    let Some(session) = &ctx.session else { return Ok(()) };
    let range_id = partition.range_id;
    let record = entry.record.ranges.iter().find(|range| range.range_id == range_id);
    let ancestors = record.iter().flat_map(|range| &range.parents);
    let seen = ancestors.chain([&range_id]).filter_map(|id| session.entry_of(*id));
    let Some(seen) = seen.max_by_key(|entry| (entry.version, entry.lsn)) else { return Ok(()) };
    let own = (partition.session_version, partition.durable_lsn() as i64);
    if seen.version < own.0 || (seen.version, seen.lsn) <= own {
        return Ok(());
    }
    // A partition that has moved is behind because it has ended.
    partition.check_open()?;
    let message = format!(
        "The read session is not available for the input session token: it names LSN {} (version {}) of range {}, but range {range_id} is at {} (version {})",
        seen.lsn, seen.version, seen.range_id, own.1, own.0
    );
    Err(Error::new(ErrorKind::SessionNotAvailable, message).with_meta(partition.meta(100, 0)))
}
