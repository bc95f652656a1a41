//! Conversions from and to binary values, UUIDs, parts of timestamps.

use crate::error::{CONVERSION_FAILURE, Result, error, fail};
use crate::value::Value;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::sync::Arc;

pub(super) fn unsupported<T>(value: &Value, target: &str) -> Result<T> {
    fail!(CONVERSION_FAILURE, "Unsupported conversion from {} to {target} in $convert", value.type_name())
}

/// Options of `$convert` for binary values.
#[derive(Debug, Default)]
pub(super) struct BinaryOptions {
    pub subtype: u8,
    pub format: Option<String>,
    pub big_endian: bool,
}

pub(super) fn subtype(value: &Value) -> Result<u8> {
    if !value.is_number() {
        fail!(4341108, "In $convert, 'subtype' must be a number, not {}", value.type_name());
    }
    let Some(number) = value.to_i32_exact() else {
        fail!(4341106, "In $convert, numeric value for 'subtype' must be a 32-bit integer: {value}");
    };
    match number {
        0..=9 | 128..=255 => Ok(number as u8),
        _ => fail!(4341107, "In $convert, 'subtype' is not a valid BinData subtype: {number}"),
    }
}

pub(super) fn format(value: &Value) -> Result<Option<String>> {
    match value {
        value if value.is_nullish() => Ok(None),
        Value::String(format) => match &**format {
            "base64" | "base64url" | "utf8" | "hex" | "uuid" | "auto" => Ok(Some(format.to_string())),
            other => fail!(4341125, "Invalid 'format' argument for $convert: {other}"),
        },
        other => fail!(4341114, "$convert requires that 'format' be a string, found: {}", other.type_name()),
    }
}

pub(super) fn is_big_endian(value: &Value) -> Result<bool> {
    match value {
        value if value.is_nullish() => Ok(false),
        Value::String(order) => match &**order {
            "little" => Ok(false),
            "big" => Ok(true),
            other => fail!(9130002, "Invalid 'byteOrder' argument for $convert: {other}"),
        },
        other => {
            fail!(9130001, "$convert requires that 'byteOrder' be a string, found: {}", other.type_name())
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn parse_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

fn uuid_text(bytes: &[u8]) -> String {
    let text = hex(bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    if groups != [8, 4, 4, 4, 12] { None } else { parse_hex(&text.replace('-', "")) }
}

fn wanted(options: &BinaryOptions) -> Result<&str> {
    let missing = || error!(4341115, "$convert requires a 'format' between strings and BinData");
    options.format.as_deref().ok_or_else(missing)
}

pub(super) fn to_text(subtype: u8, bytes: &[u8], options: &BinaryOptions) -> Result<Value> {
    let is_uuid = subtype == 4 && bytes.len() == 16;
    let text = match wanted(options)? {
        "auto" if is_uuid => uuid_text(bytes),
        "base64" | "auto" => STANDARD.encode(bytes),
        "base64url" => URL_SAFE_NO_PAD.encode(bytes),
        "hex" => hex(bytes).to_ascii_uppercase(),
        "uuid" if is_uuid => uuid_text(bytes),
        "utf8" => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => fail!(CONVERSION_FAILURE, "BinData is not valid UTF-8 in $convert"),
        },
        other => {
            fail!(CONVERSION_FAILURE, "BinData of subtype {subtype} has no format '{other}' in $convert")
        }
    };
    Ok(Value::string(text))
}

pub(super) fn to_binary(value: &Value, options: &BinaryOptions) -> Result<Value> {
    let bytes = match value {
        Value::Binary(subtype, _) if *subtype == options.subtype => return Ok(value.clone()),
        Value::Binary(subtype, _) => {
            fail!(CONVERSION_FAILURE, "Conversions between BinData subtypes are not supported: {subtype}")
        }
        Value::Int(number) => ordered(number.to_le_bytes().to_vec(), options.big_endian),
        Value::Long(number) => ordered(number.to_le_bytes().to_vec(), options.big_endian),
        Value::Double(number) => ordered(number.to_le_bytes().to_vec(), options.big_endian),
        Value::String(text) => bytes_of_text(text, options)?,
        other => return unsupported(other, "binData"),
    };
    Ok(Value::Binary(options.subtype, Arc::from(bytes)))
}

fn bytes_of_text(text: &str, options: &BinaryOptions) -> Result<Vec<u8>> {
    let format = wanted(options)?;
    let uuid = options.subtype == 4;
    let bytes = match format {
        "base64" if !uuid => STANDARD.decode(text).ok(),
        "base64url" if !uuid => URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok(),
        "hex" if !uuid => parse_hex(text),
        "utf8" if !uuid => Some(text.as_bytes().to_vec()),
        "uuid" if uuid => parse_uuid(text),
        "auto" if uuid => parse_uuid(text),
        "auto" => STANDARD.decode(text).ok(),
        _ => None,
    };
    bytes.ok_or_else(|| error!(CONVERSION_FAILURE, "Input string '{text}' is not valid {format} in $convert"))
}

fn ordered(mut bytes: Vec<u8>, big_endian: bool) -> Vec<u8> {
    if big_endian {
        bytes.reverse();
    }
    bytes
}

pub(super) fn to_integer(bytes: &[u8], options: &BinaryOptions, target: &str) -> Result<i64> {
    let bytes = ordered(bytes.to_vec(), options.big_endian);
    let widths: &[usize] = if target == "int" { &[1, 2, 4] } else { &[1, 2, 4, 8] };
    if !widths.contains(&bytes.len()) {
        fail!(CONVERSION_FAILURE, "BinData of {} bytes cannot become {target} in $convert", bytes.len());
    }
    let fill = if bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xFF } else { 0 };
    let mut wide = [fill; 8];
    wide[..bytes.len()].copy_from_slice(&bytes);
    Ok(i64::from_le_bytes(wide))
}

pub(super) fn to_double(bytes: &[u8], options: &BinaryOptions) -> Result<f64> {
    let bytes = ordered(bytes.to_vec(), options.big_endian);
    if let Ok(bytes) = <[u8; 8]>::try_from(&bytes[..]) {
        return Ok(f64::from_le_bytes(bytes));
    }
    if let Ok(bytes) = <[u8; 4]>::try_from(&bytes[..]) {
        return Ok(f64::from(f32::from_le_bytes(bytes)));
    }
    fail!(CONVERSION_FAILURE, "BinData of {} bytes cannot become double in $convert", bytes.len())
}

pub(super) fn to_uuid(value: &Value) -> Result<Value> {
    if value.is_nullish() {
        return Ok(Value::Null);
    }
    let options = BinaryOptions { subtype: 4, format: Some("uuid".into()), big_endian: false };
    to_binary(value, &options)
}

pub(super) fn timestamp_part(value: &Value, seconds: bool) -> Result<Value> {
    let name = if seconds { "$tsSecond" } else { "$tsIncrement" };
    match value {
        value if value.is_nullish() => Ok(Value::Null),
        Value::Timestamp(second, increment) => {
            Ok(Value::Long(i64::from(if seconds { *second } else { *increment })))
        }
        other => {
            let code = if seconds { 5687301 } else { 5687302 };
            fail!(code, "{name} requires a timestamp argument, found: {}", other.type_name())
        }
    }
}
