//! Values as JSON text, written without intermediate copies.

use shardlake_document::{Number, RawValue, Value, write_json_string, write_value};

use crate::error::SqlError;
use crate::value::datum::Datum;

/// Appends a value; false for undefined, which has no text.
pub(crate) fn write_datum(value: &Datum<'_>, out: &mut Vec<u8>) -> Result<bool, SqlError> {
    match value {
        Datum::Undefined => return Ok(false),
        Datum::Null => out.extend_from_slice(b"null"),
        Datum::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Datum::Number(number) => write_number(*number, out)?,
        Datum::String(text) => write_json_string(text, out),
        Datum::RawArray(array) => write_value(RawValue::Array(*array), out),
        Datum::RawObject(document) => write_value(RawValue::Object(*document), out),
        Datum::Item(item) => item.write_json(out),
        Datum::Array(elements) => write_elements(elements, out)?,
        Datum::Object(members) => write_members(members, out)?,
    }
    Ok(true)
}

fn write_number(number: Number, out: &mut Vec<u8>) -> Result<(), SqlError> {
    if !number.as_f64().is_finite() {
        return Err(SqlError::NotFinite);
    }
    match number {
        Number::Int(value) => write_value(RawValue::Int(value), out),
        Number::Double(value) => write_value(RawValue::Double(value), out),
    }
    Ok(())
}

fn write_elements(elements: &[Value], out: &mut Vec<u8>) -> Result<(), SqlError> {
    out.push(b'[');
    let first = out.len();
    for element in elements {
        let start = out.len();
        if start > first {
            out.push(b',');
        }
        if !write_datum(&Datum::from_tree(element), out)? {
            out.truncate(start);
        }
    }
    out.push(b']');
    Ok(())
}

fn write_members(members: &[(String, Value)], out: &mut Vec<u8>) -> Result<(), SqlError> {
    out.push(b'{');
    let first = out.len();
    for (name, member) in members.iter() {
        let start = out.len();
        if start > first {
            out.push(b',');
        }
        write_json_string(name, out);
        out.push(b':');
        if !write_datum(&Datum::from_tree(member), out)? {
            out.truncate(start);
        }
    }
    out.push(b'}');
    Ok(())
}
