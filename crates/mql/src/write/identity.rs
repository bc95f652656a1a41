//! `_id` and the identity that it gives an item (spec mongo.md §11.2).
//!
//! The stored `id` is the identity's text if the text encodes value and type. Otherwise it is the value itself, and the
//! engine derives the identity from it.

use crate::decimal::Decimal;
use crate::error::{Result, error, fail};
use crate::order::identical;
use crate::value::{Str, Value, bytes_of_members};
use std::borrow::Cow;

use shardlake_document::{ID_BYTES_MAX, IdValue, ItemId, RawDocument, id_of_text, value_of_id};

/// Stored forms of an `_id`.
#[derive(Debug, Clone)]
pub struct Identity {
    /// In the item's key.
    pub text: Str,
    /// The body's `id`.
    pub stored: Value,
}

impl Identity {
    /// Error 53 for a value that cannot be an `_id`, 17280 for a string that is too long.
    pub fn of(value: &Value) -> Result<Identity> {
        if let Value::String(text) = value
            && let Cow::Borrowed(own) = id_of_text(text)
        {
            check_length(own)?;
            return Ok(Identity { text: text.clone(), stored: value.clone() });
        }
        let text = Str::from(identity_text(value)?);
        let is_encoded = identical(&identity_value(&text), value);
        let stored = if is_encoded { Value::String(text.clone()) } else { value.clone() };
        Ok(Identity { text, stored })
    }
}

/// The identity's text.
pub fn identity_text(value: &Value) -> Result<String> {
    if let Value::String(text) = value {
        return text_of_string(text);
    }
    let not_an_id = || error!(53, "The '_id' value cannot be of type {}", value.type_name());
    match value {
        Value::Array(_) | Value::Regex(_) | Value::Undefined | Value::Missing => Err(not_an_id()),
        _ => typed_text(value).ok_or_else(not_an_id),
    }
}

/// The typed form of a value other than a string; `None` for a value without such a form.
pub(crate) fn typed_text(value: &Value) -> Option<String> {
    let bytes = bytes_of_members(std::iter::once((Cow::Borrowed(""), value)), value.size());
    let raw = RawDocument::assume_valid(&bytes).get("")?;
    ItemId::of_value(raw).map(ItemId::into_string)
}

fn text_of_string(text: &str) -> Result<String> {
    let id = id_of_text(text).into_owned();
    check_length(&id)?;
    Ok(id)
}

fn check_length(id: &str) -> Result<()> {
    if id.len() > ID_BYTES_MAX {
        fail!(17280, "an '_id' that is a string takes at most {ID_BYTES_MAX} bytes");
    }
    Ok(())
}

/// The `_id` of an item whose `id` is a string. Numbers have the smallest type that holds them.
pub fn identity_value(id: &str) -> Value {
    match value_of_id(id) {
        IdValue::Text(text) => Value::string(text),
        IdValue::Null => Value::Null,
        IdValue::MinKey => Value::MinKey,
        IdValue::MaxKey => Value::MaxKey,
        IdValue::Bool(value) => Value::Bool(value),
        IdValue::Int(whole) => i32::try_from(whole).map_or(Value::Long(whole), Value::Int),
        IdValue::Double(number) => Value::Double(number),
        IdValue::Decimal(text) => Decimal::parse(text).map_or_else(|| Value::string(id), Value::Decimal),
        IdValue::ObjectId(id) => Value::ObjectId(id),
        IdValue::Date(milliseconds) => Value::Date(milliseconds),
        IdValue::Timestamp(seconds, increment) => Value::Timestamp(seconds, increment),
        IdValue::Binary(subtype, bytes) => Value::Binary(subtype, bytes.into()),
    }
}
