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

#[cfg(test)]
mod tests {
    use shardlake_document::parse_item;

    use super::*;

    fn key_of(json: &str, paths: &[&str]) -> Vec<KeyComponent> {
        let body = parse_item(json.as_bytes(), &Default::default()).expect("a body");
        let paths: Vec<KeyPath> = paths.iter().map(|path| KeyPath::parse(path).expect("a path")).collect();
        extract_partition_key(body.raw(), &paths).0
    }

    #[test]
    fn each_kind_of_value_has_its_component() {
        let json = r#"{"id":"7","s":"t","i":3,"d":2.5,"b":true,"n":null,"a":[1],"o":{"x":"deep"}}"#;
        assert_eq!(key_of(json, &["/s"]), [KeyComponent::String("t".to_owned())]);
        assert_eq!(key_of(json, &["/i"]), [KeyComponent::Number(3.0)]);
        assert_eq!(key_of(json, &["/d"]), [KeyComponent::Number(2.5)]);
        assert_eq!(key_of(json, &["/b"]), [KeyComponent::Bool(true)]);
        assert_eq!(key_of(json, &["/n"]), [KeyComponent::Null]);
        assert_eq!(key_of(json, &["/id"]), [KeyComponent::String("7".to_owned())]);
        assert_eq!(key_of(json, &["/o/x"]), [KeyComponent::String("deep".to_owned())]);
        for path in ["/a", "/o", "/missing", "/s/x", "/a/0"] {
            assert_eq!(key_of(json, &[path]), [KeyComponent::Undefined], "{path}");
        }
        let levels = [KeyComponent::String("t".to_owned()), KeyComponent::Undefined, KeyComponent::Null];
        assert_eq!(key_of(json, &["/s", "/missing", "/n"]), levels, "a level each");
    }
}
