//! Partition key of a body.

use shardlake_document::{ItemId, NonJson, RawDocument, RawValue};
use shardlake_model::{KeyComponent, KeyPath, PartitionKey};

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
