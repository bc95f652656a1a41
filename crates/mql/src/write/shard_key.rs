//! The shard key of a collection: the partition key of its container (spec mongo.md §11.4).

use super::identity::{identity_text, typed_text};
use super::names::{shown_path, stored_path};
use crate::error::{Result, error, fail};
use crate::value::{Document, Value};
use shardlake_model::{KeyComponent, KeyPath, PartitionKey};

/// The path of containers that hold one logical partition, which no item has.
pub const UNSHARDED_PATH: &str = "_partitionKey";

const SHARD_KEY_NOT_FOUND: i32 = 61;

/// Where the key's values lie in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardKey {
    /// As the partition key names them.
    stored: Vec<KeyPath>,
    /// As documents do; none where the collection is not sharded.
    shown: Vec<String>,
}

impl ShardKey {
    pub fn of(paths: &[KeyPath]) -> ShardKey {
        let is_sharded = !matches!(paths, [path] if path.0 == [UNSHARDED_PATH]);
        let shown = if is_sharded { paths.iter().map(|path| shown_path(&path.0)).collect() } else { vec![] };
        ShardKey { stored: paths.to_vec(), shown }
    }

    pub fn is_sharded(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Dotted paths; none where the collection is not sharded.
    pub fn paths(&self) -> &[String] {
        &self.shown
    }

    /// The key of a document that is to be written: every part has to be there.
    pub fn of_new(&self, document: &Document) -> Result<PartitionKey> {
        let component = |path: &String| {
            let value = value_at(document, path);
            if value.is_missing() {
                fail!(
                    SHARD_KEY_NOT_FOUND,
                    "the document lacks the shard key '{path}': write it with the document"
                );
            }
            component_at(path, &value).ok_or_else(|| {
                let kind = value.type_name();
                error!(SHARD_KEY_NOT_FOUND, "the shard key '{path}' cannot be of type {kind}")
            })
        };
        if !self.is_sharded() {
            return Ok(self.of_unsharded());
        }
        self.shown.iter().map(component).collect::<Result<Vec<_>>>().map(PartitionKey)
    }

    /// The key of a stored document, whichever API wrote it.
    pub fn of_stored(&self, document: &Document) -> PartitionKey {
        if !self.is_sharded() {
            return self.of_unsharded();
        }
        let component = |path: &String| match value_at(document, path) {
            Value::Missing => KeyComponent::Undefined,
            value => component_at(path, &value).unwrap_or(KeyComponent::Undefined),
        };
        PartitionKey(self.shown.iter().map(component).collect())
    }

    /// The key that equalities of a filter name: whole, or of a hierarchical one its first parts. Empty where they name none.
    pub fn of_equalities(&self, find: impl Fn(&str) -> Option<Value>) -> PartitionKey {
        if !self.is_sharded() {
            return self.of_unsharded();
        }
        let mut components = Vec::new();
        for path in &self.shown {
            let component = find(path).and_then(|value| component_at(path, &value));
            match component {
                // Zero has two spellings, and null also stands for a missing value.
                Some(KeyComponent::Number(0.0) | KeyComponent::Null) | None => break,
                Some(component) => components.push(component),
            }
        }
        PartitionKey(components)
    }

    /// The fields that identify a document in its collection: the shard key and `_id`.
    pub fn document_key(&self, document: &Document) -> Document {
        let mut key = Document::new();
        for path in self.shown.iter().filter(|path| *path != "_id") {
            let value = value_at(document, path);
            if !value.is_missing() {
                key.push(path.as_str(), value);
            }
        }
        key.push("_id", document.value("_id"));
        key
    }

    pub fn is_whole(&self, key: &PartitionKey) -> bool {
        key.0.len() == self.stored.len()
    }

    fn of_unsharded(&self) -> PartitionKey {
        PartitionKey(vec![KeyComponent::Undefined; self.stored.len()])
    }

    /// Stored paths of a pattern's fields.
    pub fn stored_paths(fields: impl Iterator<Item = impl AsRef<str>>) -> Vec<String> {
        fields.map(|field| format!("/{}", stored_path(field.as_ref()).join("/"))).collect()
    }
}

/// The value at a dotted path through documents; an array on the way is itself the result.
fn value_at(document: &Document, path: &str) -> Value {
    let mut parts = path.split('.');
    let mut value = parts.next().map(|first| document.value(first)).unwrap_or_default();
    for part in parts {
        value = match value {
            Value::Document(inner) => inner.value(part),
            Value::Array(_) => return value,
            _ => return Value::Missing,
        };
    }
    value
}

/// The key component of a value; `None` for a value that cannot be part of a key. An `_id` is part of a key as the id
/// of its item, which has one spelling for equal numbers.
fn component_at(path: &str, value: &Value) -> Option<KeyComponent> {
    match path {
        "_id" => identity_text(value).ok().map(KeyComponent::String),
        _ => component_of(value),
    }
}

/// The key component of a value other than an `_id`.
fn component_of(value: &Value) -> Option<KeyComponent> {
    Some(match value {
        Value::Null => KeyComponent::Null,
        Value::Bool(value) => KeyComponent::Bool(*value),
        Value::String(text) => KeyComponent::String(text.to_string()),
        number if number.is_number() => match number.to_f64() {
            // Zero has no sign here.
            Some(0.0) => KeyComponent::Number(0.0),
            Some(number) if number.is_finite() => KeyComponent::Number(number),
            _ => KeyComponent::String(typed_text(number)?),
        },
        Value::ObjectId(_)
        | Value::Date(_)
        | Value::Binary(..)
        | Value::Timestamp(..)
        | Value::MinKey
        | Value::MaxKey => KeyComponent::String(typed_text(value)?),
        _ => return None,
    })
}
