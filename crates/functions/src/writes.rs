//! The writes of a run as operations of partitions.

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

fn operations_of(text: &str, limits: &Limits) -> Result<Vec<PatchOperation>> {
    let invalid =
        |reason: String| Error::bad_request(format!("the operations of the patch are invalid: {reason}"));
    let written = Value::from_json(text.as_bytes(), &ParseLimits::of_items(limits));
    let Value::Array(operations) = written.map_err(|error| invalid(error.to_string()))? else {
        return Err(invalid("give an array".to_owned()));
    };
    operations.into_iter().map(operation_of).collect()
}

fn operation_of(written: Value) -> Result<PatchOperation> {
    let Value::Object(members) = written else {
        return Err(Error::bad_request("an operation of a patch is an object such as { op, path, value }"));
    };
    let (mut op, mut path, mut from, mut value) = (None, None, None, None);
    for (name, member) in members {
        match (name.as_str(), member) {
            ("op", Value::String(text)) => op = Some(text),
            ("path", Value::String(text)) => path = Some(text),
            ("from", Value::String(text)) => from = Some(text),
            ("value", member) => value = Some(member),
            _ => {
                return Err(Error::bad_request(format!(
                    "the member '{name}' of a patch operation is unknown or no text: use op, path, from and value"
                )));
            }
        }
    }
    let op = op.ok_or_else(|| Error::bad_request("the member 'op' of a patch operation is missing"))?;
    let path = pointer("path", path.as_deref())?;
    let value = || value.ok_or_else(|| Error::bad_request(format!("'{op}' needs a value")));
    Ok(match op.to_ascii_lowercase().as_str() {
        "add" => PatchOperation::Add { path, value: value()? },
        "set" => PatchOperation::Set { path, value: value()? },
        "replace" => PatchOperation::Replace { path, value: value()? },
        "remove" => PatchOperation::Remove { path },
        "incr" | "increment" => {
            let by = value()?.as_number();
            let by = by.ok_or_else(|| Error::bad_request("the value of 'incr' must be a number"))?;
            PatchOperation::Increment { path, by }
        }
        "move" => PatchOperation::Move { from: pointer("from", from.as_deref())?, path },
        _ => {
            return Err(Error::bad_request(format!(
                "'{op}' is no patch operation: use add, set, replace, remove, incr or move"
            )));
        }
    })
}

fn pointer(member: &str, text: Option<&str>) -> Result<Vec<String>> {
    let text = text.ok_or_else(|| {
        Error::bad_request(format!("the member '{member}' of a patch operation is missing"))
    })?;
    parse_path(text).map_err(|error| Error::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_patches_are_read_and_others_refused() {
        let of = |text: &str| operations_of(text, &Limits::default());
        let text = r#"[{"op":"set","path":"/a/b","value":null},{"op":"incr","path":"/n","value":2},
            {"op":"move","from":"/x","path":"/y"},{"op":"remove","path":"/z"}]"#;
        let operations = of(text).expect("valid");
        assert!(
            matches!(
                &operations[..],
                [
                    PatchOperation::Set { value: Value::Null, .. },
                    PatchOperation::Increment { .. },
                    PatchOperation::Move { .. },
                    PatchOperation::Remove { .. },
                ]
            ),
            "{operations:?}"
        );
        for (text, reason) in [
            ("{}", "array"),
            ("[1]", "object"),
            (r#"[{"path":"/a"}]"#, "'op'"),
            (r#"[{"op":"set","value":1}]"#, "'path'"),
            (r#"[{"op":"set","path":"/a"}]"#, "needs a value"),
            (r#"[{"op":"swap","path":"/a"}]"#, "'swap'"),
            (r#"[{"op":"set","path":"/a","value":1,"if":2}]"#, "'if'"),
            (r#"[{"op":"incr","path":"/a","value":"1"}]"#, "number"),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.message().contains(reason), "{text}: {error}");
        }
    }
}
