//! Filter of a source: values that an item must have.

use std::collections::BTreeMap;

use shardlake_document::{ParseLimits, Value};
use shardlake_model::{Error, IndexPath, IndexPathSegment, PartitionKey, Result};
use shardlake_partition::ContainerSchema;

/// Paths of one filter, and values of one path.
const ENTRIES_MAX: usize = 20;

#[derive(Debug, Clone, Default)]
pub(crate) struct Filter(Vec<(Vec<String>, Vec<Value>)>);

impl Filter {
    pub fn of(written: &BTreeMap<String, serde_json::Value>) -> Result<Filter> {
        check_count(written.len(), 0)?;
        let mut conditions = Vec::new();
        for (path, wanted) in written {
            let wanted = match wanted {
                serde_json::Value::Array(values) => values.iter().map(scalar).collect::<Result<Vec<_>>>()?,
                value => vec![scalar(value)?],
            };
            check_count(wanted.len(), 1)?;
            conditions.push((names(path)?, wanted));
        }
        Ok(Filter(conditions))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an item passes.
    pub fn passes(&self, item: &Value) -> bool {
        let value_at = |names: &[String]| {
            names.iter().try_fold(item, |value, name| value.get(name)).unwrap_or(&Value::Undefined)
        };
        let mut conditions = self.0.iter();
        conditions.all(|(names, wanted)| is_among(value_at(names), wanted))
    }

    /// Whether a deleted item may have passed. Only its partition key is known.
    pub fn may_have_passed(&self, schema: &ContainerSchema, key: &PartitionKey) -> bool {
        self.0.iter().all(|(names, wanted)| {
            let place = schema.key_paths.iter().position(|path| path.0 == *names);
            let Some(component) = place.and_then(|place| key.0.get(place)) else { return true };
            is_among(&value_of(component), wanted)
        })
    }
}

fn is_among(value: &Value, wanted: &[Value]) -> bool {
    wanted.iter().any(|wanted| shardlake_document::compare(wanted, value).is_eq())
}

/// The value of a component of a partition key.
fn value_of(component: &shardlake_model::KeyComponent) -> Value {
    let key = PartitionKey(vec![component.clone()]);
    let text = shardlake_document::partition_key_text(&key);
    // An undefined component is written as an object, which equals no wanted value.
    match Value::from_json(text.as_bytes(), &ParseLimits::default()) {
        Ok(Value::Array(mut values)) => values.pop().unwrap_or(Value::Undefined),
        _ => Value::Undefined,
    }
}

fn check_count(count: usize, min: usize) -> Result<()> {
    if (min..=ENTRIES_MAX).contains(&count) {
        return Ok(());
    }
    Err(Error::bad_request(format!("a 'filter' takes {min} to {ENTRIES_MAX} entries, not {count}")))
}

fn names(path: &str) -> Result<Vec<String>> {
    let invalid = || {
        Error::bad_request(format!(
            "the path '{path}' of 'filter' is invalid: write '/name', '/outer/inner' or '/\"odd name\"'"
        ))
    };
    if path.ends_with("/*") || path.ends_with("/?") {
        return Err(invalid());
    }
    let parsed = IndexPath::parse(&format!("{path}/?")).map_err(|_| invalid())?;
    let name = |segment| match segment {
        IndexPathSegment::Name(name) => Ok(name),
        IndexPathSegment::AnyElement | IndexPathSegment::Element(_) => Err(invalid()),
    };
    let names: Vec<String> = parsed.segments.into_iter().map(name).collect::<Result<_>>()?;
    if names.is_empty() { Err(invalid()) } else { Ok(names) }
}

fn scalar(value: &serde_json::Value) -> Result<Value> {
    if value.is_array() || value.is_object() {
        return Err(Error::bad_request("a 'filter' compares with texts, numbers, booleans and null"));
    }
    Value::from_json(value.to_string().as_bytes(), &ParseLimits::default())
        .map_err(|error| Error::bad_request(format!("a value of 'filter' is invalid: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn passes(filter: serde_json::Value, item: serde_json::Value) -> bool {
        let filter = serde_json::from_value(filter).expect("a map");
        let item = Value::from_json(item.to_string().as_bytes(), &ParseLimits::default()).expect("an item");
        Filter::of(&filter).expect("valid").passes(&item)
    }

    #[test]
    fn an_item_passes_with_one_of_the_values_at_every_path() {
        assert!(passes(json!({}), json!({})));
        assert!(passes(json!({ "/type": "a" }), json!({ "type": "a" })));
        assert!(!passes(json!({ "/type": "a" }), json!({ "type": "b" })));
        assert!(passes(
            json!({ "/type": ["a", null], "/x/y": 1 }),
            json!({ "type": null, "x": { "y": 1.0 } })
        ));
        assert!(!passes(json!({ "/type": ["a", null] }), json!({})));
    }
}
