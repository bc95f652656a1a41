//! Operations on single items.

use std::sync::Arc;

use shardlake_document::PatchOperation;
use shardlake_model::{Error, ErrorKind, Preconditions, RequestContext, Result, Rid};
use shardlake_partition::{
    CommandContext, ItemReply, LogicalKey, Operation, Outcome, Partition, validate_item_id,
};
use shardlake_sql::parse_condition;

use crate::{Account, ContainerHandle, KeyInput};
use shardlake_serving::ContainerEntry;
use shardlake_serving::{Cost, OperationKind, Touched};
use shardlake_serving::{key_of_read, key_of_write};

/// A partial update as a client sends it.
#[derive(Debug, Clone)]
pub struct Patch {
    pub operations: Vec<PatchOperation>,
    /// `from c where …`: the patch applies only where it holds.
    pub condition: Option<String>,
}

impl Account {
    pub async fn create_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        json: &[u8],
    ) -> Result<ItemReply> {
        let (item, _room) = self.prepared(ctx, container, json).await?;
        let logical = key_of_write(container, key, &item)?;
        self.write(ctx, container, &logical, Operation::Create { item }).await
    }

    pub async fn upsert_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        json: &[u8],
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let (item, _room) = self.prepared(ctx, container, json).await?;
        let logical = key_of_write(container, key, &item)?;
        let operation = Operation::Upsert { item, preconditions: preconditions.clone() };
        self.write(ctx, container, &logical, operation).await
    }

    pub async fn replace_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        json: &[u8],
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let (item, _room) = self.prepared(ctx, container, json).await?;
        let logical = key_of_write(container, key, &item)?;
        let id = self.resolve_id(container, &logical, id).await?;
        let operation = Operation::Replace { id, item, preconditions: preconditions.clone() };
        self.write(ctx, container, &logical, operation).await
    }

    pub async fn read_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let logical = key_of_read(container, key)?;
        if container.by_rid {
            let id = self.resolve_id(container, &logical, id).await?;
            return self.read(ctx, container, &logical, &id, preconditions).await;
        }
        self.read(ctx, container, &logical, id, preconditions).await
    }

    pub(crate) async fn read(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        logical: &LogicalKey,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let command = self.command(ctx, 0);
        let mut routing = self.routing(container);
        loop {
            let partition = routing.owner(logical);
            let is_there = check_session(ctx, &routing.entry, partition);
            if routing.has_moved(&is_there).await? {
                continue;
            }
            is_there?;
            let partition = routing.owner(logical);
            let touched = Touched::Logical(logical);
            let permit = self.admit(ctx, &routing.entry, partition, OperationKind::Read, touched)?;
            let outcome = partition.read(&routing.entry.shape, &command, logical, id, preconditions).await;
            permit.settle_outcome(&outcome, cost_of_item);
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    pub async fn delete_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let logical = key_of_read(container, key)?;
        let id = self.resolve_id(container, &logical, id).await?;
        let operation = Operation::Delete { id, preconditions: preconditions.clone() };
        self.write(ctx, container, &logical, operation).await
    }

    pub async fn patch_item(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        id: &str,
        patch: Patch,
        preconditions: &Preconditions,
    ) -> Result<ItemReply> {
        let logical = key_of_read(container, key)?;
        let id = self.resolve_id(container, &logical, id).await?;
        let operation = patch_operation(container, id, patch, preconditions.clone())?;
        self.write(ctx, container, &logical, operation).await
    }

    /// The id of the item that a path segment names, in the logical partition of a key.
    pub async fn item_id(
        &self,
        container: &ContainerHandle,
        key: Option<KeyInput<'_>>,
        segment: &str,
    ) -> Result<String> {
        let logical = key_of_read(container, key)?;
        self.resolve_id(container, &logical, segment).await
    }

    /// The id of the item that a path segment names: an id, or a rid where the container was named by rid too.
    pub(crate) async fn resolve_id(
        &self,
        container: &ContainerHandle,
        logical: &LogicalKey,
        segment: &str,
    ) -> Result<String> {
        match Rid::parse(segment) {
            Some(Rid::Item(rid))
                if container.by_rid && rid.container == container.entry.record.container.rid =>
            {
                let mut routing = self.routing(container);
                let id = loop {
                    let id = routing.owner(logical).id_of_ordinal(logical, rid.ordinal).await;
                    if !routing.has_moved(&id).await? {
                        break id?;
                    }
                };
                id.ok_or_else(|| {
                    Error::new(
                        ErrorKind::NotFound,
                        "Entity with the specified id does not exist in the system.",
                    )
                })
            }
            _ => Ok(segment.to_owned()),
        }
    }

    pub(crate) async fn write(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        logical: &LogicalKey,
        operation: Operation,
    ) -> Result<ItemReply> {
        let command = self.command(ctx, 1);
        let mut routing = self.routing(container);
        loop {
            let partition = routing.owner(logical);
            let touched = Touched::Logical(logical);
            let permit = self.admit(ctx, &routing.entry, partition, OperationKind::Write, touched)?;
            let outcome = partition.write(&routing.entry.shape, &command, logical, &operation).await;
            permit.settle_outcome(&outcome, cost_of_item);
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    pub(crate) fn command(&self, ctx: &RequestContext, writes: usize) -> CommandContext {
        CommandContext {
            now: ctx.now,
            consistency: ctx.consistency,
            etags: (0..writes).map(|_| self.random().guid()).collect(),
            patience: ctx.deadline.saturating_sub(self.clock().elapsed()),
        }
    }
}

/// Of an operation on one item.
fn cost_of_item(reply: &ItemReply) -> Cost {
    let size_bytes = reply.item.as_ref().map_or(0, |item| item.json_size_bytes() as u64);
    Cost { charge_centi: reply.meta.charge_centi, size_bytes, creates: reply.outcome == Outcome::Created }
}

/// Refuses a patch that the reference refuses whatever the item holds.
pub(crate) fn patch_operation(
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
    let condition = match patch.condition {
        Some(text) => Some(parse_condition(&text).map_err(|error| match error {
            shardlake_sql::SqlError::Unsupported { .. } => Error::unsupported(error.to_string()),
            _ => Error::bad_request(error.to_string()),
        })?),
        None => None,
    };
    validate_item_id(&id, &shape.limits)?;
    Ok(Operation::Patch { id, operations: patch.operations, condition, preconditions })
}

/// Refuses to read behind the session's position. With one copy of the data that means a token of another life of this
/// container, such as before a backup was restored; a token of an earlier container of the same name says nothing. A
/// position in a range that this one was made of holds for it too.
pub(crate) fn check_session(
    ctx: &RequestContext,
    entry: &ContainerEntry,
    partition: &Arc<Partition>,
) -> Result<()> {
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
    // A partition that has moved on is behind because it has ended.
    partition.check_open()?;
    let message = format!(
        "The read session is not available for the input session token: it names LSN {} (version {}) of range {}, but range {range_id} is at {} (version {})",
        seen.lsn, seen.version, seen.range_id, own.1, own.0
    );
    Err(Error::new(ErrorKind::SessionNotAvailable, message).with_meta(partition.meta(100, 0)))
}
