//! The partition key as clients send it: a JSON array of scalars; `{}` for undefined, `[]` for no key (wire.md §5).

use serde_json::Number;
use serde_json::Value;
use shardlake_model::{KeyComponent, KeyKind, KeyNumberError, PartitionKey, PartitionKeyDefinition};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("it is not a JSON array")]
    NotAnArray,
    #[error("component {0} is an array or an object, which cannot be a key")]
    NotAScalar(usize),
    #[error("component {0} is {1}")]
    Number(usize, KeyNumberError),
    #[error("it has {actual} components, but the container's partition key has {expected}")]
    Components { actual: usize, expected: usize },
}

/// Fewer components than the definition has paths are a prefix, which only a hierarchical key has.
pub fn parse_partition_key_header(
    text: &str,
    definition: &PartitionKeyDefinition,
) -> Result<PartitionKey, KeyError> {
    let expected = definition.paths.len();
    if let Some(component) = plain_string(text)
        && expected == 1
    {
        return Ok(PartitionKey::single(KeyComponent::String(component.to_owned())));
    }
    let Ok(Value::Array(values)) = serde_json::from_str(text) else { return Err(KeyError::NotAnArray) };
    let components: Vec<KeyComponent> = values
        .into_iter()
        .enumerate()
        .map(|(index, value)| component(index, value))
        .collect::<Result<_, _>>()?;
    let actual = components.len();
    match actual {
        // Containers migrated from unpartitioned ones: their items have no key.
        0 if definition.kind != KeyKind::MultiHash => {
            Ok(PartitionKey(vec![KeyComponent::Undefined; expected]))
        }
        actual if actual == expected => Ok(PartitionKey(components)),
        actual if actual < expected && actual > 0 => Ok(PartitionKey(components)),
        _ => Err(KeyError::Components { actual, expected }),
    }
}

/// The usual case, `["text"]` without escapes, without a parser.
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
        let hash = PartitionKeyDefinition::hash("/a");
        let parse = |text: &str| parse_partition_key_header(text, &hash).map(|key| key.0);
        assert_eq!(parse(r#"["abc"]"#), Ok(vec![KeyComponent::String("abc".into())]));
        assert_eq!(parse(r#"["\u00e9\""]"#), Ok(vec![KeyComponent::String("é\"".into())]));
        assert_eq!(parse("[1.5]"), Ok(vec![KeyComponent::Number(1.5)]));
        assert_eq!(parse(" [ true ] "), Ok(vec![KeyComponent::Bool(true)]));
        assert_eq!(parse("[null]"), Ok(vec![KeyComponent::Null]));
        assert_eq!(parse("[{}]"), Ok(vec![KeyComponent::Undefined]));
        assert_eq!(parse("[]"), Ok(vec![KeyComponent::Undefined]));
        for broken in ["", "abc", "\"abc\"", "[[1]]", r#"[{"a":1}]"#, "[1,2]", r#"["a""#, "[1e999]"] {
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

    #[test]
    fn hierarchical_keys_may_be_prefixes_but_not_empty() {
        let definition = PartitionKeyDefinition::multi_hash(&["/a", "/b"]);
        assert_eq!(parse_partition_key_header(r#"["x"]"#, &definition).expect("a prefix").0.len(), 1);
        assert_eq!(parse_partition_key_header(r#"["x",null]"#, &definition).expect("full").0.len(), 2);
        assert!(parse_partition_key_header("[]", &definition).is_err());
        assert!(parse_partition_key_header("[1,2,3]", &definition).is_err());
    }
}
