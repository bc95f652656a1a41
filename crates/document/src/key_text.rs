//! Partition keys as JSON text, as clients write them.

use shardlake_model::{KeyComponent, PartitionKey};

use crate::write_json_string;

/// A key as it stands in the partition key header.
pub fn partition_key_text(key: &PartitionKey) -> String {
    let mut text = b"[".to_vec();
    for (index, component) in key.0.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write_key_component(component, &mut text);
    }
    text.push(b']');
    String::from_utf8_lossy(&text).into_owned()
}

/// A part of a partition key as JSON; an empty object where the item has none, as clients write it.
pub fn write_key_component(component: &KeyComponent, out: &mut Vec<u8>) {
    match component {
        KeyComponent::Undefined => out.extend_from_slice(b"{}"),
        KeyComponent::Null => out.extend_from_slice(b"null"),
        KeyComponent::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
        KeyComponent::Number(number) if number.abs() < 1e21 => {
            out.extend_from_slice(number.to_string().as_bytes());
        }
        KeyComponent::Number(number) => out.extend_from_slice(format!("{number:e}").as_bytes()),
        KeyComponent::String(string) => write_json_string(string, out),
    }
}
