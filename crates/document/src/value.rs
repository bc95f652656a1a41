//! The owned tree of a JSON value, for code that builds or changes values: patch, scripts, queries.
//!
//! Beyond JSON it knows `Undefined`, and doubles that are not finite, both of which arise while expressions are evaluated.
//! Neither can be stored: [`Value::to_body`] leaves `Undefined` members and elements out and refuses numbers that are not
//! finite. The derived `PartialEq` is that of the representation (1 differs from 1.0, order of members counts); for equality
//! as queries see it use [`crate::compare`].

use crate::body::{Body, is_system_property};
use crate::bson_writer::{BsonWriter, Slot, kind};
use crate::error::DocumentError;
use crate::json_in::parse_wrapped_value;
use crate::json_out::{write_double, write_int, write_json_string};
use crate::limits::{NESTING_CEILING, ParseLimits};
use crate::raw::{RawDocument, RawValue};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Value {
    #[default]
    Undefined,
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    String(String),
    Array(Vec<Value>),
    /// Members in order; names are unique.
    Object(Vec<(String, Value)>),
}

/// A number as it was written: integers within 64 bits stay integers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Number {
    Int(i64),
    Double(f64),
}

impl Value {
    /// Reads any JSON value, with the rules of `json_in.rs`.
    pub fn from_json(json: &[u8], limits: &ParseLimits) -> Result<Value, DocumentError> {
        let wrapped = parse_wrapped_value(json, limits)?;
        Ok(wrapped.raw().get("").map_or(Value::Undefined, Value::from_raw))
    }

    pub fn from_document(document: RawDocument<'_>) -> Value {
        Value::from_raw(RawValue::Object(document))
    }

    /// Copies a value out of a document, in its JSON form. Values nested deeper than [`NESTING_CEILING`],
    /// which no valid body contains, become `Undefined`.
    pub fn from_raw(raw: RawValue<'_>) -> Value {
        from_raw_at(raw, 0)
    }

    /// Writes an object as an item body; system properties at its top level are left out.
    pub fn to_body(&self) -> Result<Body, DocumentError> {
        let Value::Object(members) = self else { return Err(DocumentError::NotAnObject) };
        let mut writer = BsonWriter::with_capacity(256);
        let length_at = writer.reserve_length();
        for (name, value) in members {
            if !is_system_property(name) {
                write_member(name, value, 2, &mut writer)?;
            }
        }
        writer.end_document(length_at);
        Body::from_writer(writer.out)
    }

    /// Appends JSON text. `Undefined` members and elements are left out, and a lone `Undefined` writes nothing.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<(), DocumentError> {
        match self {
            Value::Undefined => {}
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Value::Int(value) => write_int(*value, out),
            Value::Double(value) if !value.is_finite() => return Err(DocumentError::NotFinite),
            Value::Double(value) => write_double(*value, out),
            Value::String(value) => write_json_string(value, out),
            Value::Array(elements) => {
                out.push(b'[');
                let defined = elements.iter().filter(|element| !element.is_undefined());
                for (index, element) in defined.enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    element.write_json(out)?;
                }
                out.push(b']');
            }
            Value::Object(members) => {
                out.push(b'{');
                let defined = members.iter().filter(|(_, value)| !value.is_undefined());
                for (index, (name, value)) in defined.enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_json_string(name, out);
                    out.push(b':');
                    value.write_json(out)?;
                }
                out.push(b'}');
            }
        }
        Ok(())
    }

    /// [`Value::write_json`] as a string.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        let mut out = Vec::new();
        self.write_json(&mut out)?;
        Ok(String::from_utf8(out).expect("JSON text is made of strings and ASCII"))
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined)
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let Value::Object(members) = self else { return None };
        members.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value)
    }

    pub fn as_str(&self) -> Option<&str> {
        let Value::String(text) = self else { return None };
        Some(text)
    }

    pub fn as_number(&self) -> Option<Number> {
        match self {
            Value::Int(value) => Some(Number::Int(*value)),
            Value::Double(value) => Some(Number::Double(*value)),
            _ => None,
        }
    }
}

impl RawDocument<'_> {
    /// The value at a path of property names as JSON shows it, into values that JSON lacks too.
    pub fn value_at_path<S: AsRef<str>>(&self, path: &[S]) -> Option<Value> {
        let (first, rest) = path.split_first()?;
        match (self.get(first.as_ref())?, rest) {
            (value, []) => Some(Value::from_raw(value)),
            (RawValue::Object(inner), rest) => inner.value_at_path(rest),
            (RawValue::NonJson(value), rest) => value.shown().raw().value_at_path(rest),
            _ => None,
        }
    }
}

impl Number {
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Double(value) => value,
        }
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        match number {
            Number::Int(value) => Value::Int(value),
            Number::Double(value) => Value::Double(value),
        }
    }
}

impl From<RawValue<'_>> for Value {
    fn from(raw: RawValue<'_>) -> Value {
        Value::from_raw(raw)
    }
}

impl From<RawDocument<'_>> for Value {
    fn from(document: RawDocument<'_>) -> Value {
        Value::from_document(document)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_string())
    }
}

fn from_raw_at(raw: RawValue<'_>, level: usize) -> Value {
    match raw {
        RawValue::Null => Value::Null,
        RawValue::Bool(value) => Value::Bool(value),
        RawValue::Int(value) => Value::Int(value),
        RawValue::Double(value) => Value::Double(value),
        RawValue::String(value) => Value::String(value.to_string()),
        RawValue::Array(_) | RawValue::Object(_) | RawValue::NonJson(_) if level > NESTING_CEILING => {
            Value::Undefined
        }
        RawValue::NonJson(value) => from_raw_at(RawValue::Object(value.shown().raw()), level),
        RawValue::Array(array) => {
            Value::Array(array.iter().map(|value| from_raw_at(value, level + 1)).collect())
        }
        RawValue::Object(document) => Value::Object(
            document.iter().map(|(name, value)| (name.to_string(), from_raw_at(value, level + 1))).collect(),
        ),
    }
}

fn write_member(
    name: &str,
    value: &Value,
    level: usize,
    writer: &mut BsonWriter,
) -> Result<(), DocumentError> {
    if value.is_undefined() {
        return Ok(());
    }
    let slot = writer.member(name.as_bytes());
    write_at(slot, value, level, writer)
}

/// `level` is the level of `value` if it is a container.
pub(crate) fn write_at(
    slot: Slot,
    value: &Value,
    level: usize,
    writer: &mut BsonWriter,
) -> Result<(), DocumentError> {
    match value {
        Value::Undefined => unreachable!("callers leave undefined values out"),
        Value::Null => writer.null(slot),
        Value::Bool(value) => writer.bool(slot, *value),
        Value::Int(value) => writer.int(slot, *value),
        Value::Double(value) if !value.is_finite() => return Err(DocumentError::NotFinite),
        Value::Double(value) => writer.double(slot, *value),
        Value::String(value) => writer.string(slot, value),
        Value::Array(_) | Value::Object(_) if level > NESTING_CEILING => {
            return Err(DocumentError::TooDeep { nesting_max: NESTING_CEILING, offset: 0 });
        }
        Value::Array(elements) => {
            let length_at = writer.begin_document(slot, kind::ARRAY);
            let defined = elements.iter().filter(|element| !element.is_undefined());
            for (index, element) in defined.enumerate() {
                let slot = writer.element(index);
                write_at(slot, element, level + 1, writer)?;
            }
            writer.end_document(length_at);
        }
        Value::Object(members) => {
            let length_at = writer.begin_document(slot, kind::DOCUMENT);
            for (name, value) in members {
                write_member(name, value, level + 1, writer)?;
            }
            writer.end_document(length_at);
        }
    }
    writer.finish(slot);
    Ok(())
}
