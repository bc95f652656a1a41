//! The writes of a run as operations of partitions.

use shardlake_document::ItemName;
use shardlake_items::{ItemWrite, Patch, item_of_json};
use shardlake_model::{ETagCondition, Error, KeyPath, Limits, PartitionKey, Preconditions, Result};
use shardlake_partition::{FunctionOperation, FunctionWrite, Operation, PreparedBody};
use shardlake_script::changes::{FunctionWriteKind, FunctionWriteOrder, patch_operations};

use crate::at_work::FunctionAtWork;
use crate::reads::key_of;

/// A write with its place.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// Place of the container in `access`.
    pub container: usize,
    pub write: FunctionWrite,
}

/// Checks the writes as those of a client.
pub(crate) async fn planned(
    at: &FunctionAtWork<'_>,
    orders: Vec<FunctionWriteOrder>,
) -> Result<Vec<Planned>> {
    let mut writes = Vec::with_capacity(orders.len());
    for order in orders {
        let name = format!("{} in '{}'", name_of(&order.kind), order.container);
        let write = planned_one(at, order).await;
        writes.push(write.map_err(|error| Error::new(error.kind(), format!("{name}: {}", error.message())))?);
    }
    Ok(writes)
}

/// The name of the method that asked for it.
pub fn name_of(kind: &FunctionWriteKind) -> &'static str {
    match kind {
        FunctionWriteKind::Create { .. } => "create",
        FunctionWriteKind::Upsert { .. } => "upsert",
        FunctionWriteKind::Replace { .. } => "replace",
        FunctionWriteKind::Patch { .. } => "patch",
        FunctionWriteKind::Delete { .. } => "delete",
    }
}

async fn planned_one(at: &FunctionAtWork<'_>, order: FunctionWriteOrder) -> Result<Planned> {
    let accessed = at.accessed(&order.container)?;
    if !accessed.may_write {
        return Err(Error::bad_request("the function may only read it: set \"access\" to \"readWrite\""));
    }
    let limits = at.serving().limits();
    let preconditions =
        Preconditions { if_match: order.if_match.as_deref().map(ETagCondition::parse), if_none_match: None };
    let key_paths = &accessed.handle.entry.shape.key_paths;
    let (key, write) = item_write(order.kind, preconditions, (key_paths, limits))?;
    let items = at.functions.0.queries.items();
    let (key, operation) = items.planned(&accessed.handle, key.as_ref(), write).await?;
    let container = at.access.iter().position(|other| other.name == accessed.name);
    let write = FunctionWrite { key, etag: at.serving().random().guid(), operation: sent(operation)? };
    Ok(Planned { container: container.expect("it was just found"), write })
}

/// The operation in the form in which it is sent.
fn sent(operation: Operation) -> Result<FunctionOperation> {
    let stored = |item: PreparedBody| item.body.as_bytes().to_vec();
    Ok(match operation {
        Operation::Create { item } => FunctionOperation::Create { body: stored(item) },
        Operation::Upsert { item, preconditions } => {
            FunctionOperation::Upsert { body: stored(item), preconditions }
        }
        Operation::Replace { id, item, preconditions } => {
            FunctionOperation::Replace { id, body: stored(item), preconditions }
        }
        Operation::Patch { id, operations, preconditions, condition: None } => {
            FunctionOperation::Patch { id, operations, preconditions }
        }
        Operation::Delete { id, preconditions } => FunctionOperation::Delete { id, preconditions },
        Operation::Patch { .. } | Operation::Change { .. } | Operation::Read { .. } => {
            return Err(Error::internal("a function planned an operation that it does not have"));
        }
    })
}

fn item_write(
    kind: FunctionWriteKind,
    preconditions: Preconditions,
    (key_paths, limits): (&[KeyPath], &Limits),
) -> Result<(Option<PartitionKey>, ItemWrite)> {
    let named = |id: String| ItemName::Id(id.into());
    Ok(match kind {
        FunctionWriteKind::Create { item } => {
            (None, ItemWrite::Create { body: item_of_json(item.as_bytes(), limits)? })
        }
        FunctionWriteKind::Upsert { item } => {
            (None, ItemWrite::Upsert { body: item_of_json(item.as_bytes(), limits)?, preconditions })
        }
        FunctionWriteKind::Replace { item } => {
            let body = item_of_json(item.as_bytes(), limits)?;
            let id = match body.raw().get("id") {
                Some(shardlake_document::RawValue::String(id)) => Some(id.to_owned()),
                _ => None,
            };
            let id = id.ok_or_else(|| Error::bad_request("the item has no 'id'"))?;
            (None, ItemWrite::Replace { item: named(id), body, preconditions })
        }
        FunctionWriteKind::Patch { id, partition_key, operations } => {
            let patch =
                Patch { operations: patch_operations(&operations, key_paths, limits)?, condition: None };
            (Some(key_of(&partition_key)?), ItemWrite::Patch { item: named(id), patch, preconditions })
        }
        FunctionWriteKind::Delete { id, partition_key } => {
            (Some(key_of(&partition_key)?), ItemWrite::Delete { item: named(id), preconditions })
        }
    })
}
