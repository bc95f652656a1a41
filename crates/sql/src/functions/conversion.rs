//! Conversions from values to text and back.

use shardlake_document::{ParseLimits, Value, write_json_string};

use crate::error::SqlError;
use crate::functions::call::{Call, owned_text, part};
use crate::value::datum::{Datum, DatumType, VALUE_SIZE_BYTES_MAX, grow};

/// Texts stay as they are; everything else is its JSON, numbers with the fewest digits that read back as the same number.
pub(super) fn to_string<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let datum = call.datum(0);
    match datum {
        Datum::Undefined => return Ok(None),
        Datum::String(text) => return Ok(Some(part(text, 0, text.len()))),
        _ => grow(&mut 0, datum.size())?,
    }
    let mut out = Vec::new();
    print(&datum.to_value(), &mut out);
    grow(&mut 0, out.len())?;
    let text = String::from_utf8(out).expect("JSON text is made of strings and ASCII");
    Ok(Some(owned_text(text)))
}

/// Recursion is as deep as the value nests, which is limited where values are made.
fn print(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Undefined => {}
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double(value) => out.extend_from_slice(double_text(*value).as_bytes()),
        Value::String(text) => write_json_string(text, out),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                print(element, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_json_string(name, out);
                out.push(b':');
                print(member, out);
            }
            out.push(b'}');
        }
    }
}

/// Whole numbers have no decimal point, and numbers that JSON lacks have names. An exponent has a sign and at
/// least two digits.
fn double_text(value: f64) -> String {
    /// Whole numbers of 64 bits are digits.
    const PLAIN_MAX: f64 = 9_223_372_036_854_775_808.0;
    if value.is_nan() {
        return "NaN".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_string();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_string();
    }
    if (1e-6..PLAIN_MAX).contains(&magnitude) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let sign = if exponent.starts_with('-') { '-' } else { '+' };
    format!("{digits}e{sign}{:0>2}", exponent.trim_start_matches('-'))
}

/// Parses a text that is the JSON of a value of the wanted type; white space around it is allowed.
pub(super) fn parse<'a>(call: &Call<'_, 'a>, wanted: DatumType) -> Option<Datum<'a>> {
    let limits = ParseLimits { size_max_bytes: VALUE_SIZE_BYTES_MAX, ..ParseLimits::default() };
    let value = Value::from_json(call.text(0)?.trim().as_bytes(), &limits).ok()?;
    let datum = Datum::from(value);
    (datum.datum_type() == wanted).then_some(datum)
}
