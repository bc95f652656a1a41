//! Partition keys: of items, and in the forms that functions give them.

use rquickjs::{Ctx, Result, Value};
use shardlake_document::{RawDocument, RawValue, partition_key_text};
use shardlake_model::{KeyComponent, KeyPath, Limits, PartitionKey};

use super::containers::Container;
use crate::worker::model::{kind, refuse};

/// The key of an item, as text: a JSON array.
pub(super) fn key_of_item(item: RawDocument<'_>, paths: &[KeyPath]) -> String {
    let component = |path: &KeyPath| match item.get_path(&path.0) {
        Some(RawValue::Null) => KeyComponent::Null,
        Some(RawValue::Bool(value)) => KeyComponent::Bool(value),
        Some(RawValue::Int(number)) => KeyComponent::Number(number as f64),
        Some(RawValue::Double(number)) => KeyComponent::Number(number),
        Some(RawValue::String(text)) => KeyComponent::String(text.to_owned()),
        Some(RawValue::NonJson(_) | RawValue::Array(_) | RawValue::Object(_)) | None => {
            KeyComponent::Undefined
        }
    };
    partition_key_text(&PartitionKey(paths.iter().map(component).collect()))
}

/// The number of components that a key has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// Queries may give the first components of a hierarchical key.
    Prefix,
}

/// A key that a function gives: a value, or an array of values. The result is a JSON array.
pub(super) fn key_text<'js>(
    ctx: &Ctx<'js>,
    given: &Value<'js>,
    container: &Container,
    extent: Extent,
) -> Result<String> {
    let count = container.key_paths.len();
    let components = match given.as_array() {
        None if given.is_undefined() => {
            return Err(refuse(ctx, "the partition key is missing: give its value, or an array of values"));
        }
        None => vec![component(ctx, given)?],
        Some(array) => {
            if array.len() > count {
                return Err(wrong_count(ctx, array.len(), container));
            }
            (0..array.len()).map(|place| component(ctx, &array.get(place)?)).collect::<Result<_>>()?
        }
    };
    let is_right = match extent {
        Extent::Whole => components.len() == count,
        Extent::Prefix => (1..=count).contains(&components.len()),
    };
    if !is_right {
        return Err(wrong_count(ctx, components.len(), container));
    }
    let text = partition_key_text(&PartitionKey(components));
    let bytes_max = 2 * Limits::default().partition_key_bytes_max;
    if text.len() > bytes_max {
        return Err(refuse(ctx, format!("the partition key has {} bytes, more than a key has", text.len())));
    }
    Ok(text)
}

fn wrong_count(ctx: &Ctx<'_>, given: usize, container: &Container) -> rquickjs::Error {
    let message = format!(
        "the partition key of '{}' has {} values, and {given} are given",
        container.name,
        container.key_paths.len()
    );
    refuse(ctx, message)
}

fn component<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<KeyComponent> {
    if let Some(text) = value.as_string() {
        let text = text.to_string();
        return match text {
            Err(rquickjs::Error::Utf8(_)) => Err(refuse(ctx, "a partition key is no well-formed text")),
            text => text.map(KeyComponent::String),
        };
    }
    if let Some(number) = value.as_number() {
        let number = match number.is_finite() {
            true => KeyComponent::double(number).map_err(|error| error.to_string()),
            false => Err(format!("{number}, which is no JSON number")),
        };
        return number.map_err(|why| refuse(ctx, format!("a partition key is {why}")));
    }
    if let Some(value) = value.as_bool() {
        return Ok(KeyComponent::Bool(value));
    }
    // A missing value is `{}` in the keys of changes.
    let is_empty = |object: &rquickjs::Object<'js>| object.keys::<rquickjs::Atom<'js>>().next().is_none();
    match value.as_object() {
        Some(object) if !value.is_array() && !value.is_function() && is_empty(object) => {
            Ok(KeyComponent::Undefined)
        }
        None if value.is_null() => Ok(KeyComponent::Null),
        None if value.is_undefined() => Ok(KeyComponent::Undefined),
        _ => Err(refuse(
            ctx,
            format!("a partition key is a text, a number, true, false or null, and not {}", kind(value)),
        )),
    }
}
