//! Preparation of a body for writing: checked, rendered, analysed. No lock is held here. Callers on
//! threads that answer requests go through [`crate::prepare`], which offloads heavy ones to the
//! blocking pool.

use std::sync::Arc;

use shardlake_document::{Body, ItemId, NonJson, RawDocument, RawValue, identity_of};
use shardlake_model::{Error, KeyComponent, KeyPath, Limits, PartitionKey, Result};

use crate::cpu_pool::{HEAVY_BYTES, offload};
use crate::operation::{MembersText, PreparedBody};
use crate::plan;
use crate::shape::ContainerSchema;

/// [`prepare_body`], on the blocking pool where the body is large.
pub async fn prepare(body: Body, shape: &Arc<ContainerSchema>) -> Result<PreparedBody> {
    if body.as_bytes().len() <= HEAVY_BYTES {
        return prepare_body(body, shape);
    }
    let shape = shape.clone();
    offload(move || prepare_body(body, &shape)).await?
}

pub fn prepare_body(body: Body, shape: &ContainerSchema) -> Result<PreparedBody> {
    let id = identity_of(body.raw()).ok_or_else(|| no_identity(body.raw()))?.into_owned();
    validate_item_id(&id, &shape.limits)?;
    let ttl_seconds = plan::ttl_of(body.raw().get("ttl"))?;
    if shape.is_collection {
        plan::check_collection_size(body.as_bytes().len(), shape)?;
    }
    let members = MembersText::of(body.raw(), shape);
    if !shape.is_collection {
        plan::check_size(members.size_bytes, shape)?;
    }
    PreparedBody::new(id, body, members, ttl_seconds, shape)
}

fn no_identity(body: RawDocument<'_>) -> Error {
    Error::bad_request(match body.get("id") {
        Some(_) => "the property 'id' is of a kind that cannot be an id",
        None => "The input content is invalid because the required properties - 'id; ' - are missing",
    })
}

/// 1 to 1,023 bytes, any characters: the service takes `/ \ ? #` too, although no client builds a path of such an id that
/// is not percent-encoded.
pub fn validate_item_id(id: &str, limits: &Limits) -> Result<()> {
    if id.is_empty() || id.len() > limits.item_id_bytes_max {
        return Err(Error::bad_request(format!(
            "The input name is invalid. Ensure to provide a unique non-empty string less than '{}' characters.",
            limits.item_id_bytes_max + 1
        )));
    }
    Ok(())
}

/// The key value of a body: missing properties, arrays and objects are undefined. Of the values
/// that JSON lacks, a decimal becomes the nearest double, and every other value that can be an id
/// becomes its text as an id. An id itself is always its text.
pub fn extract_partition_key(body: RawDocument<'_>, paths: &[KeyPath]) -> PartitionKey {
    let component = |path: &KeyPath| match body.get_path(&path.0) {
        Some(id) if path.is_id() => key_of_id(id),
        Some(RawValue::Null) => KeyComponent::Null,
        Some(RawValue::Bool(value)) => KeyComponent::Bool(value),
        Some(RawValue::Int(number)) => KeyComponent::Number(number as f64),
        Some(RawValue::Double(number)) => KeyComponent::Number(number),
        Some(RawValue::String(text)) => KeyComponent::String(text.to_owned()),
        Some(RawValue::NonJson(value)) => key_of_non_json(value),
        Some(RawValue::Array(_) | RawValue::Object(_)) | None => KeyComponent::Undefined,
    };
    PartitionKey(paths.iter().map(component).collect())
}

fn key_of_id(id: RawValue<'_>) -> KeyComponent {
    ItemId::of_value(id).map_or(KeyComponent::Undefined, |id| KeyComponent::String(id.into_string()))
}

fn key_of_non_json(value: NonJson<'_>) -> KeyComponent {
    if let Some(number) = value.finite_decimal() {
        return KeyComponent::Number(number);
    }
    key_of_id(RawValue::NonJson(value))
}
