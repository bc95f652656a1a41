//! Parts of strings by bytes or code points: `$substrBytes`, `$substrCP`, `$indexOfBytes`, `$indexOfCP`.

use super::operator::{Operator, between, exactly};
use super::strings::text_of;
use crate::error::{Result, fail};
use crate::value::Value;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$substr" | "$substrBytes" => exactly(3, |_, values| substring_bytes(values)),
        "$substrCP" => exactly(3, |_, values| substring_points(values)),
        "$indexOfBytes" => between(2, 4, |_, values| index_bytes(values)),
        "$indexOfCP" => between(2, 4, |_, values| index_points(values)),
        _ => None,
    }
}

fn substring_bytes(values: &[Value]) -> Result<Value> {
    let text = text_of(&values[0])?;
    let number = |value: &Value, code: i32, what: &str| match value {
        Value::Double(double) if crate::value::double_to_i64(double.trunc()).is_none() => {
            fail!(31109, "Can't coerce out of range value {value} to long")
        }
        value if value.is_number() => Ok(coerced_i64(value)),
        other => {
            fail!(code, "$substrBytes: {what} must be a numeric type (is BSON type {})", other.type_name())
        }
    };
    let start = number(&values[1], 16034, "starting index")?;
    let length = number(&values[2], 16035, "length")?;
    if start < 0 {
        fail!(50752, "$substrBytes: starting index must be non-negative (got: {start})");
    }
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    if start >= text.len() {
        return Ok(Value::string(""));
    }
    if !text.is_char_boundary(start) {
        fail!(28656, "$substrBytes: Invalid range, starting index is a UTF-8 continuation byte.");
    }
    let end = match usize::try_from(length) {
        Ok(length) => start.saturating_add(length).min(text.len()),
        Err(_) => text.len(),
    };
    if !text.is_char_boundary(end) {
        fail!(28657, "$substrBytes: Invalid range, ending index is in the middle of a UTF-8 character.");
    }
    Ok(Value::string(&text[start..end]))
}

/// A number as an integer: doubles truncated, decimals rounded to the nearest. A number out of range is the least
/// integer, as in the reference.
fn coerced_i64(value: &Value) -> i64 {
    match value {
        Value::Decimal(decimal) => {
            let whole = decimal.to_whole(crate::decimal::Rounding::HalfEven).to_integer();
            whole.and_then(|whole| i64::try_from(whole).ok()).unwrap_or(i64::MIN)
        }
        Value::Double(double) => crate::value::double_to_i64(double.trunc()).unwrap_or(i64::MIN),
        other => other.to_i64_exact().unwrap_or(i64::MIN),
    }
}

fn substring_points(values: &[Value]) -> Result<Value> {
    let text = text_of(&values[0])?;
    let number = |value: &Value, codes: (i32, i32), what: &str| {
        if !value.is_number() {
            fail!(codes.0, "$substrCP: {what} must be a numeric type (is BSON type {})", value.type_name());
        }
        let Some(number) = value.to_i32_exact() else {
            fail!(codes.1, "$substrCP: {what} cannot be represented as a 32-bit integral value: {value}");
        };
        Ok(number)
    };
    let start = number(&values[1], (34450, 34451), "starting index")?;
    let length = number(&values[2], (34452, 34453), "length")?;
    let Ok(length) = usize::try_from(length) else {
        fail!(34454, "$substrCP: length must be a nonnegative integer")
    };
    let Ok(start) = usize::try_from(start) else {
        fail!(34455, "$substrCP: starting index must be a nonnegative integer");
    };
    Ok(Value::string(text.chars().skip(start).take(length).collect::<String>()))
}

/// Start and end of a search, within a string of so many units; `None` where nothing can be found.
fn range(values: &[Value], name: &str, units: usize) -> Result<Option<(usize, usize)>> {
    let bound = |at: usize, what: &str| -> Result<Option<usize>> {
        let Some(value) = values.get(at) else { return Ok(None) };
        let Some(number) = value.to_i32_exact().filter(|_| value.is_number()) else {
            fail!(
                40096,
                "{name} requires an integral {what} index, found a value of type: {}",
                value.type_name()
            );
        };
        match usize::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => fail!(40097, "{name} requires a nonnegative {what} index, found: {number}"),
        }
    };
    let start = bound(2, "starting")?.unwrap_or(0);
    let end = bound(3, "ending")?.unwrap_or(units).min(units);
    Ok((start <= units && start <= end).then_some((start, end)))
}

fn arguments<'a>(values: &'a [Value], name: &str, codes: (i32, i32)) -> Result<Option<(&'a str, &'a str)>> {
    let text = match &values[0] {
        value if value.is_nullish() => return Ok(None),
        Value::String(text) => text,
        other => {
            fail!(codes.0, "{name} requires a string as the first argument, found: {}", other.type_name())
        }
    };
    match &values[1] {
        Value::String(part) => Ok(Some((text, part))),
        other => {
            fail!(codes.1, "{name} requires a string as the second argument, found: {}", other.type_name())
        }
    }
}

fn index_bytes(values: &[Value]) -> Result<Value> {
    let Some((text, part)) = arguments(values, "$indexOfBytes", (40091, 40092))? else {
        return Ok(Value::Null);
    };
    let Some((start, end)) = range(values, "$indexOfBytes", text.len())? else { return Ok(Value::Int(-1)) };
    let (bytes, part) = (&text.as_bytes()[start..end], part.as_bytes());
    let found = if part.is_empty() { Some(0) } else { bytes.windows(part.len()).position(|at| at == part) };
    Ok(Value::Int(found.map_or(-1, |at| (at + start) as i32)))
}

fn index_points(values: &[Value]) -> Result<Value> {
    let Some((text, part)) = arguments(values, "$indexOfCP", (40093, 40094))? else {
        return Ok(Value::Null);
    };
    let (points, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let range = range(values, "$indexOfCP", points.len())?;
    if points.is_empty() && part.is_empty() {
        return Ok(Value::Int(0));
    }
    let Some((start, end)) = range else { return Ok(Value::Int(-1)) };
    // The part has to begin before the end, and may reach beyond it.
    let found = (start..end).find(|at| points[*at..].starts_with(&part));
    Ok(Value::Int(found.map_or(-1, |at| at as i32)))
}
