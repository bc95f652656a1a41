//! `$concat`, `$toLower`, `$split`, `$replaceOne` and other operators on whole strings.

use super::bound::{check_bytes, check_count};
use super::dates::iso_text;
use super::operator::{MANY, Operator, between, exactly};
use crate::error::{Result, fail};
use crate::time::Civil;
use crate::value::Value;
use std::cmp::Ordering;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$concat" => between(0, MANY, |_, values| concat(values)),
        "$toLower" => exactly(1, |_, values| Ok(Value::string(text_of(&values[0])?.to_ascii_lowercase()))),
        "$toUpper" => exactly(1, |_, values| Ok(Value::string(text_of(&values[0])?.to_ascii_uppercase()))),
        "$strcasecmp" => exactly(2, |_, values| compare_folded(&values[0], &values[1])),
        "$split" => exactly(2, |_, values| split(&values[0], &values[1])),
        "$strLenBytes" => exactly(1, |_, values| length(&values[0], "$strLenBytes", 34473, str::len)),
        "$strLenCP" => {
            exactly(1, |_, values| length(&values[0], "$strLenCP", 34471, |text| text.chars().count()))
        }
        _ => None,
    }
}

fn concat(values: &[Value]) -> Result<Value> {
    let mut joined = String::new();
    for value in values {
        match value {
            Value::String(text) => {
                check_bytes(joined.len() + text.len())?;
                joined.push_str(text);
            }
            value if value.is_nullish() => return Ok(Value::Null),
            other => fail!(16702, "$concat only supports strings, not {}", other.type_name()),
        }
    }
    Ok(Value::string(joined))
}

/// A value as text, where an operator takes numbers and dates as well.
pub(super) fn text_of(value: &Value) -> Result<String> {
    Ok(match value {
        value if value.is_nullish() => String::new(),
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => text.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Long(value) => value.to_string(),
        Value::Double(value) => short_text(*value),
        Value::Decimal(value) => value.to_string(),
        Value::Date(millis) => iso_text(*millis)?,
        Value::Timestamp(seconds, increment) => timestamp_text(*seconds, *increment)?,
        other => fail!(16007, "can't convert from BSON type {} to String", other.type_name()),
    })
}

/// A timestamp as the reference writes it for people: `Feb  3 22:40:00:1`, without its year.
fn timestamp_text(seconds: u32, increment: u32) -> Result<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let at = Civil::from_millis(i64::from(seconds) * 1000);
    let month = MONTHS[(at.month - 1) as usize];
    Ok(format!("{month} {:2} {:02}:{:02}:{:02}:{increment}", at.day, at.hour, at.minute, at.second))
}

/// A double as C++ streams write it: six digits.
fn short_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    general(value, 6, 6)
}

/// A double with the fewest digits that identify it.
pub(super) fn number_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let digits =
        format!("{value:e}").bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    general(value, digits.max(1), 16)
}

/// A double with so many significant digits, and with an exponent from `wide` places on, like C's `%g`.
fn general(value: f64, digits: usize, wide: i32) -> String {
    let text = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let shorter = |text: &str| -> String {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.into()
        }
    };
    if exponent < -4 || exponent >= wide {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", shorter(mantissa), exponent.abs());
    }
    shorter(&format!("{:.*}", (digits as i32 - 1 - exponent).max(0) as usize, value))
}

fn compare_folded(left: &Value, right: &Value) -> Result<Value> {
    let (left, right) = (text_of(left)?.to_ascii_uppercase(), text_of(right)?.to_ascii_uppercase());
    Ok(Value::Int(match left.as_bytes().cmp(right.as_bytes()) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

fn split(text: &Value, separator: &Value) -> Result<Value> {
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::String(text) = text else {
        fail!(40085, "$split requires an expression that evaluates to a string as its first argument");
    };
    if let Value::Regex(regex) = separator {
        return super::regexes::split_by(text, &regex.0, &regex.1);
    }
    let Value::String(separator) = separator else {
        fail!(10503900, "$split requires a string or a regex as its second argument");
    };
    if separator.is_empty() {
        fail!(40087, "$split requires a non-empty separator");
    }
    check_count(text.matches(&**separator).count())?;
    Ok(Value::array(text.split(&**separator).map(Value::string).collect()))
}

fn length(value: &Value, name: &str, code: i32, count: fn(&str) -> usize) -> Result<Value> {
    match value {
        Value::String(text) => Ok(Value::Int(count(text) as i32)),
        other => fail!(code, "{name} requires a string argument, found: {}", other.type_name()),
    }
}
