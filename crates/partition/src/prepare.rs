//! Preparation of a body for writing: checked, rendered, analysed. No lock is held here. Callers on
//! threads that answer requests go through [`crate::prepare`], which offloads heavy ones to the
//! blocking pool.

use std::sync::Arc;

use shardlake_document::{
    Body, PatchOperation, RawDocument, RawValue, Value, apply_patch, identity_of, with_non_json, write_value,
};
use shardlake_model::{Error, ErrorKind, Limits, Result};

use crate::cpu_pool::{HEAVY_BYTES, offload};
use crate::item::StoredItem;
use crate::operation::{MembersText, PreparedBody};
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
    let ttl_seconds = ttl_of(body.raw().get("ttl"))?;
    if shape.is_collection {
        check_collection_size(body.as_bytes().len(), shape)?;
    }
    let members = MembersText::of(body.raw(), shape);
    if !shape.is_collection {
        check_size(members.size_bytes, shape)?;
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

/// The body after a patch, checked like a body that a client sends.
pub(crate) fn patched_body(
    existing: &StoredItem,
    id: &str,
    operations: &[PatchOperation],
    shape: &ContainerSchema,
) -> Result<PreparedBody> {
    let body =
        apply_patch(existing.body(), operations).map_err(|error| Error::bad_request(error.to_string()))?;
    // The values of a patch are JSON, like an item that is sent whole.
    let body = if shape.is_collection { with_non_json(body) } else { body };
    let members = MembersText::of(body.raw(), shape);
    check_size(members.size_bytes, shape)?;
    let ttl_seconds = ttl_of(body.raw().get("ttl"))?;
    let item = PreparedBody::new(id.to_owned(), body, members, ttl_seconds, shape)?;
    Ok(PreparedBody { is_altered: true, ..item })
}

/// Whether the values of a patch are too large for a thread that answers requests.
pub(crate) fn is_heavy_patch(operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Add { value, .. }
        | PatchOperation::Set { value, .. }
        | PatchOperation::Replace { value, .. } => size_of(value) > HEAVY_BYTES,
        PatchOperation::Remove { .. } | PatchOperation::Increment { .. } | PatchOperation::Move { .. } => {
            false
        }
    }
}

/// About the bytes that a value takes.
fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(|element| 4 + size_of(element)).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| 4 + name.len() + size_of(value)).sum(),
        _ => 8,
    }
}

fn check_size(members: usize, shape: &ContainerSchema) -> Result<()> {
    if members + 2 > shape.limits.item_size_bytes_max {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "Request size is too large: an item takes at most {} bytes of JSON",
                shape.limits.item_size_bytes_max
            ),
        ));
    }
    Ok(())
}

/// The documents of a collection come as BSON, so the size of the BSON counts, also over the other
/// API.
fn check_collection_size(body_bytes: usize, shape: &ContainerSchema) -> Result<()> {
    let max = shape.limits.collection_item_size_bytes_max;
    if body_bytes > max {
        let message = format!("a document takes at most {max} bytes of BSON in storage");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// An item's own time to live: absent, -1, or a positive 32-bit number of seconds.
fn ttl_of(value: Option<RawValue<'_>>) -> Result<Option<i32>> {
    let Some(value) = value else { return Ok(None) };
    let seconds = match value {
        RawValue::Int(seconds) => Some(seconds),
        RawValue::Double(seconds) if seconds.fract() == 0.0 && seconds.abs() < 1e15 => Some(seconds as i64),
        _ => None,
    };
    match seconds {
        Some(-1) => Ok(Some(-1)),
        Some(seconds @ 1..=2_147_483_647) => Ok(Some(seconds as i32)),
        _ => Err(Error::bad_request(format!(
            "The input ttl '{}' is invalid. Ensure to provide a nonzero positive integer less than or equal to '2147483647', or '-1' which means never expire.",
            shown(value)
        ))),
    }
}

/// A value in a sentence: JSON text, cut off where it is long.
fn shown(value: RawValue<'_>) -> String {
    const CHARACTERS_MAX: usize = 64;
    let mut json = Vec::new();
    match value {
        RawValue::Array(_) => json.extend_from_slice(b"[...]"),
        RawValue::Object(_) => json.extend_from_slice(b"{...}"),
        value => write_value(value, &mut json),
    }
    String::from_utf8_lossy(&json).chars().take(CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use shardlake_document::{Number, parse_item};

    use super::*;
    use crate::test_fixture::Fixture;

    fn ttl(json: &str) -> Result<Option<i32>> {
        let body = parse_item(json.as_bytes(), &Default::default()).expect("a body");
        ttl_of(body.raw().get("ttl"))
    }

    #[test]
    fn a_time_to_live_is_absent_for_ever_or_positive() {
        for (json, expected) in [
            ("{}", None),
            (r#"{"ttl":-1}"#, Some(-1)),
            (r#"{"ttl":1}"#, Some(1)),
            (r#"{"ttl":7.0}"#, Some(7)),
            (r#"{"ttl":2147483647}"#, Some(i32::MAX)),
        ] {
            assert_eq!(ttl(json).expect("valid"), expected, "{json}");
        }
        let long = format!(r#"{{"ttl":"{}"}}"#, "x".repeat(200));
        for (json, named) in [
            (r#"{"ttl":0}"#, "'0'"),
            (r#"{"ttl":-2}"#, "'-2'"),
            (r#"{"ttl":2147483648}"#, "'2147483648'"),
            (r#"{"ttl":1.5}"#, "'1.5'"),
            (r#"{"ttl":null}"#, "'null'"),
            (r#"{"ttl":[1]}"#, "'[...]'"),
            (r#"{"ttl":{"a":1}}"#, "'{...}'"),
            (&long, &format!("'\"{}'", "x".repeat(63))),
        ] {
            let error = ttl(json).expect_err("no time to live");
            assert_eq!(error.kind(), ErrorKind::BadRequest);
            assert!(error.to_string().contains(named), "{error} does not name {named}");
        }
    }

    #[test]
    fn ids_are_bounded_in_bytes() {
        let limits = Limits::default();
        let longest = "x".repeat(limits.item_id_bytes_max);
        for id in ["a", " ", "/", &longest] {
            validate_item_id(id, &limits).expect("valid");
        }
        for id in ["", &format!("{longest}x"), &"é".repeat(limits.item_id_bytes_max / 2 + 1)] {
            assert_eq!(validate_item_id(id, &limits).expect_err("too long").kind(), ErrorKind::BadRequest);
        }
    }

    #[test]
    fn the_values_of_a_patch_decide_where_it_runs() {
        let path = || vec!["a".to_owned()];
        let long = Value::String("x".repeat(HEAVY_BYTES));
        let nested = Value::Array(vec![Value::Null, long.clone()]);
        let set = |value| PatchOperation::Set { path: path(), value };
        assert!(!is_heavy_patch(&set(Value::Int(1))));
        assert!(!is_heavy_patch(&set(long)), "just so long");
        assert!(is_heavy_patch(&set(nested.clone())));
        assert!(is_heavy_patch(&PatchOperation::Add { path: path(), value: nested }));
        assert!(!is_heavy_patch(&PatchOperation::Remove { path: path() }));
        let increment = PatchOperation::Increment { path: path(), by: Number::Int(1) };
        assert!(!is_heavy_patch(&increment));
    }

    #[tokio::test]
    async fn bodies_are_prepared_alike_on_either_pool() {
        let fixture = Fixture::new().await;
        let json = |text: &str| format!(r#"{{"id":"1","pk":"p","ttl":9,"v":"{text}"}}"#);
        let body = |text: &str| parse_item(json(text).as_bytes(), &Default::default()).expect("a body");
        for text in ["short".to_owned(), "y".repeat(2 * HEAVY_BYTES)] {
            let here = prepare_body(body(&text), &fixture.shape).expect("valid");
            let there = prepare(body(&text), &fixture.shape).await.expect("valid");
            assert_eq!((here.id, here.ttl_seconds), (there.id.clone(), Some(9)));
            assert_eq!(here.members.text, there.members.text);
            assert_eq!(here.members.size_bytes + 2, json(&text).len());
            assert_eq!(here.terms.rows(), there.terms.rows());
        }
        let without = parse_item(br#"{"pk":"p"}"#, &Default::default()).expect("a body");
        let error = prepare_body(without, &fixture.shape).expect_err("no id");
        assert!(error.to_string().contains("required properties - 'id; '"), "{error}");
    }
}
