//! Partition keys as JSON text, in the form of clients and permissions: an array of scalars; `{}` for
//! undefined, `[]` for no key.

use serde_json::{Number, Value};
use shardlake_model::{KeyComponent, KeyNumberError, PartitionKey};

use crate::write_json_string;

/// A key in the form of the partition key header.
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

/// A component of a partition key as JSON; an empty object for a missing value, as clients write it.
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("it is not a JSON array")]
    NotAnArray,
    #[error("component {0} is an array or an object, which cannot be a key")]
    NotAScalar(usize),
    #[error("component {0} is {1}")]
    Number(usize, KeyNumberError),
}

/// The number of components is not checked: it depends on the container's definition.
pub fn parse_partition_key(text: &str) -> Result<PartitionKey, KeyError> {
    if let Some(component) = plain_string(text) {
        return Ok(PartitionKey::single(KeyComponent::String(component.to_owned())));
    }
    let Ok(Value::Array(values)) = serde_json::from_str(text) else { return Err(KeyError::NotAnArray) };
    let components = values.into_iter().enumerate().map(|(index, value)| component(index, value));
    Ok(PartitionKey(components.collect::<Result<_, _>>()?))
}

/// Fast path for the usual case, `["text"]` without escapes.
fn plain_string(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("[\"")?.strip_suffix("\"]")?;
    let is_plain = inner.bytes().all(|byte| byte != b'"' && byte != b'\\' && byte >= 0x20);
    is_plain.then_some(inner)
}

fn component(index: usize, value: Value) -> Result<KeyComponent, KeyError> {
    Ok(match value {
        Value::Null => KeyComponent::Null,
        Value::Bool(value) => KeyComponent::Bool(value),
        Value::Number(value) => number(&value).map_err(|error| KeyError::Number(index, error))?,
        Value::String(text) => KeyComponent::String(text),
        Value::Object(members) if members.is_empty() => KeyComponent::Undefined,
        Value::Object(members) if members.get("type").and_then(Value::as_str) == Some("Undefined") => {
            KeyComponent::Undefined
        }
        Value::Array(_) | Value::Object(_) => return Err(KeyError::NotAScalar(index)),
    })
}

fn number(value: &Number) -> Result<KeyComponent, KeyNumberError> {
    match (value.as_i64(), value.as_u64(), value.as_f64()) {
        (Some(integer), ..) => KeyComponent::integer(integer),
        (_, Some(integer), _) => KeyComponent::integer(integer),
        (.., double) => KeyComponent::double(double.expect("every JSON number is one of the three")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_key_parses() {
        let parse = |text: &str| parse_partition_key(text).map(|key| key.0);
        assert_eq!(parse(r#"["abc"]"#), Ok(vec![KeyComponent::String("abc".into())]));
        assert_eq!(parse(r#"["\u00e9\""]"#), Ok(vec![KeyComponent::String("é\"".into())]));
        assert_eq!(parse("[1.5]"), Ok(vec![KeyComponent::Number(1.5)]));
        assert_eq!(parse(" [ true ] "), Ok(vec![KeyComponent::Bool(true)]));
        assert_eq!(parse("[null]"), Ok(vec![KeyComponent::Null]));
        assert_eq!(parse("[{}]"), Ok(vec![KeyComponent::Undefined]));
        assert_eq!(parse("[]"), Ok(vec![]));
        assert_eq!(parse(r#"["x",null]"#).expect("two components").len(), 2);
        for broken in ["", "abc", "\"abc\"", "[[1]]", r#"[{"a":1}]"#, r#"["a""#, "[1e999]"] {
            assert!(parse(broken).is_err(), "{broken}");
        }
        for exact in
            ["[9007199254740992]", "[-9007199254740994]", "[18446744073709549568]", "[0]", "[0.0]", "[1e300]"]
        {
            assert!(parse(exact).is_ok(), "{exact}");
        }
        for unsure in [
            "[9007199254740993]",
            "[9223372036854775807]",
            "[18446744073709551615]",
            "[-0]",
            "[-0.0]",
            "[-0e5]",
        ] {
            assert!(matches!(parse(unsure), Err(KeyError::Number(0, _))), "{unsure}");
        }
    }
}
