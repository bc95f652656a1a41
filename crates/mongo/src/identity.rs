//! `_id` and the identity that it gives an item (spec mongo.md §11.2).
//!
//! The stored `id` is the identity's text wherever the text tells the value again, type and all; else the value itself, whose
//! identity the engine finds out.

use shardlake_document::{ItemId, RawDocument};
use shardlake_mql::{Decimal, Document, Value, identical};

use crate::failure::{Failure, Result};

/// Bytes of an item's id.
const ID_BYTES_MAX: usize = 1023;

/// What an `_id` becomes.
#[derive(Debug, Clone)]
pub struct Identity {
    /// In the item's key.
    pub text: String,
    /// The body's `id`.
    pub stored: Value,
}

impl Identity {
    /// Error 53 for a value that cannot be an `_id`, 17280 for a string that is too long.
    pub fn of(value: &Value) -> Result<Identity> {
        let text = text_of(value)?;
        let stored = if identical(&value_of(&text), value) { Value::string(&text) } else { value.clone() };
        Ok(Identity { text, stored })
    }
}

/// The identity's text.
pub fn text_of(value: &Value) -> Result<String> {
    if let Value::String(text) = value {
        return text_of_string(text);
    }
    let not_an_id = || Failure::new(53, format!("The '_id' value cannot be of type {}", value.type_name()));
    match value {
        Value::Array(_) | Value::Regex(_) | Value::Undefined | Value::Missing => Err(not_an_id()),
        _ => typed_text(value).ok_or_else(not_an_id),
    }
}

/// The typed form of a value that is no string; `None` for one that has none.
pub(crate) fn typed_text(value: &Value) -> Option<String> {
    let bytes = Document::one("", value.clone()).to_bytes();
    let raw = RawDocument::assume_valid(&bytes).get("")?;
    ItemId::of_value(raw).map(ItemId::into_string)
}

fn text_of_string(text: &str) -> Result<String> {
    let is_plain = !text.is_empty() && !text.contains(['/', '\\', '?', '#']) && !is_typed_form(text);
    let id = if is_plain { text.to_owned() } else { format!("$str:{}", escaped(text)) };
    if id.len() > ID_BYTES_MAX {
        return Err(Failure::new(
            17280,
            format!("an '_id' that is a string takes at most {ID_BYTES_MAX} bytes"),
        ));
    }
    Ok(id)
}

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        let hides = matches!(c, '%' | '/' | '\\' | '?' | '#') || c.is_control();
        if hides || (c == '$' && at == 0) || (c == ' ' && at == last) {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        } else {
            out.push(c);
        }
    }
    out
}

pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

/// Whether an id stands for something else than the string that it is.
fn is_typed_form(text: &str) -> bool {
    text.starts_with("$hash:") || typed_value(text).is_some()
}

/// The `_id` of an item whose `id` is a string.
pub fn value_of(id: &str) -> Value {
    typed_value(id).unwrap_or_else(|| Value::string(id))
}

/// The value of a typed form in its one spelling.
fn typed_value(id: &str) -> Option<Value> {
    if !id.starts_with('$') {
        return None;
    }
    let value = read_typed(id)?;
    let again = match &value {
        Value::String(text) => text_of_string(text).ok(),
        value => typed_text(value),
    };
    (again.as_deref() == Some(id)).then_some(value)
}

fn read_typed(id: &str) -> Option<Value> {
    let whole = match id {
        "$null" => Some(Value::Null),
        "$minKey" => Some(Value::MinKey),
        "$maxKey" => Some(Value::MaxKey),
        _ => None,
    };
    if whole.is_some() {
        return whole;
    }
    let (tag, text) = id[1..].split_once(':')?;
    Some(match tag {
        "str" => Value::string(unescaped(text)?),
        "oid" => Value::ObjectId(bytes_of_hex(text)?.try_into().ok()?),
        "num" => read_number(text)?,
        "dec" => Value::Decimal(Decimal::parse(text)?),
        "bool" => Value::Bool(text.parse().ok()?),
        "date" => Value::Date(text.parse().ok()?),
        "uuid" => Value::Binary(4, bytes_of_hex(&text.replace('-', ""))?.into()),
        "bin" => {
            let (subtype, content) = text.split_once(':')?;
            let subtype = u8::from_str_radix(subtype, 16).ok()?;
            Value::Binary(subtype, shardlake_document::bytes_of_url_text(content)?.into())
        }
        "ts" => {
            let (seconds, increment) = text.split_once('.')?;
            Value::Timestamp(seconds.parse().ok()?, increment.parse().ok()?)
        }
        _ => return None,
    })
}

/// As the smallest type that holds it.
fn read_number(text: &str) -> Option<Value> {
    match text {
        "NaN" => return Some(Value::Double(f64::NAN)),
        "Infinity" => return Some(Value::Double(f64::INFINITY)),
        "-Infinity" => return Some(Value::Double(f64::NEG_INFINITY)),
        _ => {}
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(i32::try_from(whole).map_or(Value::Long(whole), Value::Int));
    }
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(Value::Double(number))
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
