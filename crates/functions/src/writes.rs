//! The writes of a run as operations of partitions.

use serde::Deserialize;
use serde_json::value::RawValue;
use shardlake_document::{ItemName, ParseLimits, PatchOperation, Value, parse_path};
use shardlake_items::{ItemWrite, Patch, item_of_json};
use shardlake_model::{ETagCondition, Error, Limits, PartitionKey, Preconditions, Result};
use shardlake_partition::{FunctionOperation, FunctionWrite, Operation, PreparedBody};
use shardlake_script::changes::{FunctionWriteKind, FunctionWriteOrder};

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

pub(crate) fn name_of(kind: &FunctionWriteKind) -> &'static str {
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
    let (key, write) = item_write(order.kind, preconditions, limits)?;
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
    limits: &Limits,
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
            let patch = Patch { operations: operations_of(&operations, limits)?, condition: None };
            (Some(key_of(&partition_key)?), ItemWrite::Patch { item: named(id), patch, preconditions })
        }
        FunctionWriteKind::Delete { id, partition_key } => {
            (Some(key_of(&partition_key)?), ItemWrite::Delete { item: named(id), preconditions })
        }
    })
}

/// An operation of a patch as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOperation<'a> {
    op: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
}

fn operations_of(text: &str, limits: &Limits) -> Result<Vec<PatchOperation>> {
    let operations: Vec<WrittenOperation<'_>> = serde_json::from_str(text)
        .map_err(|error| Error::bad_request(format!("the operations of the patch are invalid: {error}")))?;
    let limits = ParseLimits::of_items(limits);
    operations.iter().map(|operation| operation.read(&limits)).collect()
}

impl WrittenOperation<'_> {
    fn read(&self, limits: &ParseLimits) -> Result<PatchOperation> {
        let path = pointer("path", self.path.as_deref())?;
        let value = || {
            let text =
                self.value.ok_or_else(|| Error::bad_request(format!("'{}' needs a value", self.op)))?;
            Value::from_json(text.get().as_bytes(), limits)
                .map_err(|error| Error::bad_request(error.to_string()))
        };
        Ok(match self.op.to_ascii_lowercase().as_str() {
            "add" => PatchOperation::Add { path, value: value()? },
            "set" => PatchOperation::Set { path, value: value()? },
            "replace" => PatchOperation::Replace { path, value: value()? },
            "remove" => PatchOperation::Remove { path },
            "incr" | "increment" => {
                let by = value()?.as_number();
                let by = by.ok_or_else(|| Error::bad_request("the value of 'incr' must be a number"))?;
                PatchOperation::Increment { path, by }
            }
            "move" => PatchOperation::Move { from: pointer("from", self.from.as_deref())?, path },
            _ => {
                return Err(Error::bad_request(format!(
                    "'{}' is no patch operation: use add, set, replace, remove, incr or move",
                    self.op
                )));
            }
        })
    }
}

fn pointer(member: &str, text: Option<&str>) -> Result<Vec<String>> {
    let text = text.ok_or_else(|| Error::bad_request(format!("the member '{member}' is missing")))?;
    parse_path(text).map_err(|error| Error::bad_request(error.to_string()))
}
