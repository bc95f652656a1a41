//! Operations on single items.

use std::sync::Arc;

use shardlake_document::PatchOperation;
use shardlake_host::{FindOrdinal, ReadItem, WriteItem};
use shardlake_model::{Error, ErrorKind, PartitionKey, Preconditions, RequestContext, Result};
use shardlake_partition::{
    CommandContext, CommitOptions, ItemReply, LogicalKey, Operation, PartitionWrite, prepare,
    validate_item_id,
};

use crate::Items;
use crate::command::{ItemRead, ItemWrite, Patch, ReadCommand, WriteCommand};
use shardlake_document::ItemName;
use shardlake_router::{ContainerHandle, key_of_read, key_of_write, own_key_of_read};

impl Items {
    /// Creates, upserts, replaces, patches or deletes one item; no trigger runs.
    pub async fn write_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        command: WriteCommand,
    ) -> Result<ItemReply> {
        let (logical, operation) = self.planned(container, command.key.as_ref(), command.write).await?;
        self.write_noting(ctx, container, logical, (operation, command.commit)).await
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
        self.read_at(ctx, container, &ReadItem { key: logical, id, preconditions }).await
    }

    /// A write in the partition's terms, and its logical partition. `key` is the key in the request.
    pub async fn planned(
        &self,
        container: &ContainerHandle,
        key: Option<&PartitionKey>,
        write: ItemWrite,
    ) -> Result<(LogicalKey, Operation)> {
        container.entry.check_takes_writes()?;
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

    /// Reads an item at the owner of its key.
    pub async fn read_at(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        read: &ReadItem,
    ) -> Result<ItemReply> {
        self.router().send(ctx, container, &read.key, read).await
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
        let find = FindOrdinal { key: logical.clone(), ordinal };
        let ctx = self.router().own_context();
        let id = self.router().send(&ctx, container, logical, &find).await?;
        id.ok_or_else(no_such_item)
    }

    pub fn write_planned(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        logical: &LogicalKey,
        operation: Operation,
    ) -> impl Future<Output = Result<ItemReply>> + Send {
        self.write_noting(ctx, container, logical.clone(), (operation, CommitOptions::default()))
    }

    async fn write_noting(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: LogicalKey,
        (operation, commit): (Operation, CommitOptions),
    ) -> Result<ItemReply> {
        let context = CommandContext { commit, ..self.command(ctx, 1) };
        let command = WriteItem(Arc::new(PartitionWrite { key, operations: vec![operation], context }));
        self.router().send(ctx, container, &command.0.key, &command).await
    }

    pub fn command(&self, ctx: &RequestContext, writes: usize) -> CommandContext {
        let etags = (0..writes).map(|_| self.router().random().guid()).collect();
        CommandContext { etags, ..CommandContext::of(ctx, self.router().clock()) }
    }
}

pub fn no_such_item() -> Error {
    Error::new(ErrorKind::NotFound, "Entity with the specified id does not exist in the system.")
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
