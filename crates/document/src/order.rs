//! The total order of values, and the byte encoding of scalars that sorts the same way.
//!
//! `undefined < null < false < true < numbers < strings < arrays < objects`. Numbers compare by exact value
//! whether they are integers or doubles (9007199254740993 is greater than 9007199254740992.0), -0 equals 0,
//! and NaN, which no document holds, is the smallest number. Strings compare by UTF-16 code unit. Arrays
//! compare element by element; objects compare their members sorted by name, so the order of members does not
//! count. Values that compare equal are equal in queries.
//!
//! # Ordered encoding
//! `tag | content`; no encoding is a prefix of another, and `memcmp` gives the order above.
//! - undefined, null, false, true: the tag alone.
//! - number: the largest double that is not greater, as 8 bytes big-endian with the sign bit flipped (negative: all bits
//!   flipped). From 2^53 to 2^63 in magnitude two more bytes follow with the exact rest, since integers there lie between
//!   doubles. NaN is eight zeros.
//! - string: UTF-8 with ASCII moved up by one, which frees the zero byte as the end mark, and the lead bytes EE and EF
//!   moved to FE and FF, which puts U+E000–U+FFFF after the astral characters as in UTF-16. Always `len + 1` bytes.
//!
//! Decoding returns an integer if the number is whole, so 1.0 comes back as 1: equal, but not the same type.

use std::cmp::Ordering;

use crate::error::DocumentError;
use crate::raw::RawValue;
use crate::value::Value;

/// First byte of an ordered encoding; also the order of types. Gaps are reserved for types of other
/// protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TypeTag {
    Undefined = 0x08,
    Null = 0x10,
    False = 0x18,
    True = 0x19,
    Number = 0x20,
    String = 0x28,
    Array = 0x30,
    Object = 0x38,
}

impl TypeTag {
    pub fn of(value: &Value) -> TypeTag {
        match value {
            Value::Undefined => TypeTag::Undefined,
            Value::Null => TypeTag::Null,
            Value::Bool(false) => TypeTag::False,
            Value::Bool(true) => TypeTag::True,
            Value::Int(_) | Value::Double(_) => TypeTag::Number,
            Value::String(_) => TypeTag::String,
            Value::Array(_) => TypeTag::Array,
            Value::Object(_) => TypeTag::Object,
        }
    }

    pub fn of_raw(value: RawValue<'_>) -> TypeTag {
        match value {
            RawValue::Null => TypeTag::Null,
            RawValue::Bool(false) => TypeTag::False,
            RawValue::Bool(true) => TypeTag::True,
            RawValue::Int(_) | RawValue::Double(_) => TypeTag::Number,
            RawValue::String(_) => TypeTag::String,
            RawValue::Array(_) => TypeTag::Array,
            // Values that JSON lacks are ordered as the objects that represent them.
            RawValue::Object(_) | RawValue::NonJson(_) => TypeTag::Object,
        }
    }
}

/// The total order of this module.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Int(left), Value::Double(right)) => compare_int_double(*left, *right),
        (Value::Double(left), Value::Int(right)) => compare_int_double(*right, *left).reverse(),
        (Value::Double(left), Value::Double(right)) => compare_doubles(*left, *right),
        (Value::String(left), Value::String(right)) => compare_strings(left, right),
        (Value::Array(left), Value::Array(right)) => left
            .iter()
            .zip(right)
            .map(|(left, right)| compare(left, right))
            .find(|order| order.is_ne())
            .unwrap_or(left.len().cmp(&right.len())),
        (Value::Object(left), Value::Object(right)) => compare_objects(left, right),
        _ => TypeTag::of(left).cmp(&TypeTag::of(right)),
    }
}

/// [`compare`] for values inside documents; scalars are compared in place.
pub fn compare_raw(left: RawValue<'_>, right: RawValue<'_>) -> Ordering {
    match (left, right) {
        (RawValue::Int(left), RawValue::Int(right)) => left.cmp(&right),
        (RawValue::Int(left), RawValue::Double(right)) => compare_int_double(left, right),
        (RawValue::Double(left), RawValue::Int(right)) => compare_int_double(right, left).reverse(),
        (RawValue::Double(left), RawValue::Double(right)) => compare_doubles(left, right),
        (RawValue::String(left), RawValue::String(right)) => compare_strings(left, right),
        (RawValue::Array(_), RawValue::Array(_))
        | (RawValue::Object(_) | RawValue::NonJson(_), RawValue::Object(_) | RawValue::NonJson(_)) => {
            compare(&Value::from_raw(left), &Value::from_raw(right))
        }
        _ => TypeTag::of_raw(left).cmp(&TypeTag::of_raw(right)),
    }
}

/// Order by UTF-16 code unit, which differs from byte order only where an astral character meets U+E000–U+FFFF.
pub fn compare_strings(left: &str, right: &str) -> Ordering {
    let difference = left.bytes().zip(right.bytes()).find(|(left, right)| left != right);
    match difference {
        Some((left, right)) => ordered_byte(left).cmp(&ordered_byte(right)),
        None => left.len().cmp(&right.len()),
    }
}

/// Appends the ordered encoding of a scalar; arrays and objects have none.
pub fn encode_ordered(value: &Value, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    let tag = TypeTag::of(value);
    match value {
        Value::Array(_) | Value::Object(_) => return Err(DocumentError::NotScalar),
        Value::Undefined | Value::Null | Value::Bool(_) => out.push(tag as u8),
        Value::Int(value) => encode_number(split_int(*value), out),
        Value::Double(value) => encode_number((*value, 0), out),
        Value::String(text) => encode_string(text, out),
    }
    Ok(())
}

/// [`encode_ordered`] for a value inside a document.
pub fn encode_ordered_raw(value: RawValue<'_>, out: &mut Vec<u8>) -> Result<(), DocumentError> {
    let tag = TypeTag::of_raw(value);
    match value {
        RawValue::Array(_) | RawValue::Object(_) | RawValue::NonJson(_) => {
            return Err(DocumentError::NotScalar);
        }
        RawValue::Null | RawValue::Bool(_) => out.push(tag as u8),
        RawValue::Int(value) => encode_number(split_int(value), out),
        RawValue::Double(value) => encode_number((value, 0), out),
        RawValue::String(text) => encode_string(text, out),
    }
    Ok(())
}

/// Reads one ordered encoding from the front of `bytes`; returns the value and the bytes that follow it.
pub fn decode_ordered(bytes: &[u8]) -> Result<(Value, &[u8]), DocumentError> {
    const SHORT: DocumentError = DocumentError::CorruptKey { what: "the key ends early" };
    let (&tag, rest) = bytes.split_first().ok_or(SHORT)?;
    const UNDEFINED: u8 = TypeTag::Undefined as u8;
    const NULL: u8 = TypeTag::Null as u8;
    const FALSE: u8 = TypeTag::False as u8;
    const TRUE: u8 = TypeTag::True as u8;
    const NUMBER: u8 = TypeTag::Number as u8;
    const STRING: u8 = TypeTag::String as u8;
    match tag {
        UNDEFINED => Ok((Value::Undefined, rest)),
        NULL => Ok((Value::Null, rest)),
        FALSE => Ok((Value::Bool(false), rest)),
        TRUE => Ok((Value::Bool(true), rest)),
        NUMBER => decode_number(rest).ok_or(SHORT),
        STRING => {
            let end = rest.iter().position(|byte| *byte == 0).ok_or(SHORT)?;
            let text = decode_string(&rest[..end]);
            let text = text.ok_or(DocumentError::CorruptKey { what: "a string is not valid" })?;
            Ok((Value::String(text), &rest[end + 1..]))
        }
        _ => Err(DocumentError::CorruptKey { what: "unknown type tag" }),
    }
}

const TWO_POW_53: f64 = 9_007_199_254_740_992.0;
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// The largest double that is not greater than the integer, and the difference.
fn split_int(value: i64) -> (f64, u16) {
    let nearest = value as f64;
    let exact = i128::from(value) - nearest as i128;
    let below = if exact < 0 { nearest.next_down() } else { nearest };
    let rest = i128::from(value) - below as i128;
    (below, u16::try_from(rest).expect("doubles up to 2^63 are at most 1,024 apart"))
}

fn encode_number((below, rest): (f64, u16), out: &mut Vec<u8>) {
    out.push(TypeTag::Number as u8);
    out.extend_from_slice(&ordered_bits(below).to_be_bytes());
    if has_rest(below) {
        out.extend_from_slice(&rest.to_be_bytes());
    }
}

fn has_rest(below: f64) -> bool {
    (TWO_POW_53..=TWO_POW_63).contains(&below.abs())
}

fn ordered_bits(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    if value.is_nan() {
        return 0;
    }
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn decode_number(bytes: &[u8]) -> Option<(Value, &[u8])> {
    const SIGN: u64 = 1 << 63;
    let (bits, rest) = bytes.split_first_chunk()?;
    let bits = u64::from_be_bytes(*bits);
    if bits == 0 {
        return Some((Value::Double(f64::NAN), rest));
    }
    let below = f64::from_bits(if bits & SIGN == 0 { !bits } else { bits & !SIGN });
    let (missing, rest) = if has_rest(below) {
        let (missing, rest) = rest.split_first_chunk()?;
        (u16::from_be_bytes(*missing), rest)
    } else {
        (0, rest)
    };
    let is_int = (-TWO_POW_63..TWO_POW_63).contains(&below) && below.trunc() == below;
    let value = if is_int {
        Value::Int((below as i64).checked_add(i64::from(missing))?)
    } else {
        Value::Double(below)
    };
    Some((value, rest))
}

fn encode_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(TypeTag::String as u8);
    out.extend(text.bytes().map(ordered_byte));
    out.push(0);
}

/// UTF-8 byte → byte of the ordered encoding. Monotonic for lead bytes among themselves and for continuation
/// bytes among themselves: no other pairs meet at one position after an equal prefix.
fn ordered_byte(byte: u8) -> u8 {
    match byte {
        0x00..=0x7F => byte + 1,
        0xEE | 0xEF => byte + 0x10,
        _ => byte,
    }
}

fn decode_string(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut continuation_bytes = 0;
    for byte in bytes {
        if continuation_bytes > 0 {
            continuation_bytes -= 1;
            text.push(*byte);
            continue;
        }
        let lead = match byte {
            0x01..=0x80 => byte - 1,
            0xFE | 0xFF => byte - 0x10,
            0xEE | 0xEF => return None,
            _ => *byte,
        };
        continuation_bytes = match lead {
            0xC0..=0xDF => 1,
            0xE0..=0xEF => 2,
            0xF0..=0xF7 => 3,
            _ => 0,
        };
        text.push(lead);
    }
    String::from_utf8(text).ok()
}

fn compare_doubles(left: f64, right: f64) -> Ordering {
    match left.partial_cmp(&right) {
        Some(order) => order,
        // NaN equals itself and comes before every other number.
        None => right.is_nan().cmp(&left.is_nan()),
    }
}

fn compare_int_double(left: i64, right: f64) -> Ordering {
    if right.is_nan() || right < -TWO_POW_63 {
        return Ordering::Greater;
    }
    if right >= TWO_POW_63 {
        return Ordering::Less;
    }
    let whole = right.trunc();
    left.cmp(&(whole as i64)).then_with(|| compare_doubles(whole, right))
}

fn compare_objects(left: &[(String, Value)], right: &[(String, Value)]) -> Ordering {
    fn sorted(members: &[(String, Value)]) -> Vec<(&String, &Value)> {
        let defined = members.iter().filter(|(_, value)| !value.is_undefined());
        let mut members: Vec<_> = defined.map(|(name, value)| (name, value)).collect();
        members.sort_by(|left, right| compare_strings(left.0, right.0));
        members
    }
    let (left, right) = (sorted(left), sorted(right));
    let by_member = left
        .iter()
        .zip(&right)
        .map(|(left, right)| compare_strings(left.0, right.0).then_with(|| compare(left.1, right.1)));
    let first_difference = by_member.into_iter().find(|order| order.is_ne());
    first_difference.unwrap_or(left.len().cmp(&right.len()))
}
