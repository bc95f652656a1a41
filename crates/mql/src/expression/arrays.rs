//! Operators on arrays that evaluate all their arguments.

use super::objects::{array_to_object, object_to_array};
use super::operator::{MANY, Operator, between, comparing, exactly};
use crate::error::{Result, fail};
use crate::order;
use crate::value::Value;
use shardlake_collation::Collation;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$arrayElemAt" => exactly(2, |_, values| element_at(&values[0], &values[1])),
        "$concatArrays" => between(0, MANY, |_, values| concat(values)),
        "$in" => comparing(2, 2, |collation, values| is_in(collation, &values[0], &values[1])),
        "$size" => exactly(1, |_, values| size(&values[0])),
        "$slice" => between(2, 3, |_, values| slice(values)),
        "$isArray" => exactly(1, |_, values| Ok(Value::Bool(matches!(values[0], Value::Array(_))))),
        "$indexOfArray" => comparing(2, 4, index_of),
        "$range" => between(2, 3, |_, values| range(values)),
        "$reverseArray" => exactly(1, |_, values| reverse(&values[0])),
        "$arrayToObject" => exactly(1, |_, values| array_to_object(&values[0])),
        "$objectToArray" => exactly(1, |_, values| object_to_array(&values[0])),
        "$first" => exactly(1, |_, values| end_of(&values[0], "$first", |items| items.first())),
        "$last" => exactly(1, |_, values| end_of(&values[0], "$last", |items| items.last())),
        _ => None,
    }
}

fn element_at(array: &Value, index: &Value) -> Result<Value> {
    if array.is_nullish() || index.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::Array(items) = array else {
        fail!(28689, "$arrayElemAt's first argument must be an array, but is {}", array.type_name());
    };
    if !index.is_number() {
        fail!(28690, "$arrayElemAt's second argument must be a numeric value, but is {}", index.type_name());
    }
    let Some(index) = index.to_i32_exact() else {
        fail!(28691, "$arrayElemAt's second argument must be representable as a 32-bit integer: {index}");
    };
    let at = if index < 0 { items.len() as i64 + i64::from(index) } else { i64::from(index) };
    Ok(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned().unwrap_or_default())
}

fn end_of(value: &Value, name: &str, end: fn(&[Value]) -> Option<&Value>) -> Result<Value> {
    match value {
        value if value.is_nullish() => Ok(Value::Null),
        Value::Array(items) => Ok(end(items).cloned().unwrap_or_default()),
        other => fail!(28689, "{name}'s argument must be an array, but is {}", other.type_name()),
    }
}

fn concat(values: &[Value]) -> Result<Value> {
    let mut joined = Vec::new();
    for value in values {
        match value {
            value if value.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => joined.extend(items.iter().cloned()),
            other => fail!(28664, "$concatArrays only supports arrays, not {}", other.type_name()),
        }
    }
    Ok(Value::array(joined))
}

fn is_in(collation: &Collation, wanted: &Value, array: &Value) -> Result<Value> {
    let Value::Array(items) = array else {
        fail!(40081, "$in requires an array as a second argument, found: {}", array.type_name());
    };
    Ok(Value::Bool(items.iter().any(|item| order::equal_by(collation, item, wanted))))
}

fn size(array: &Value) -> Result<Value> {
    match array {
        Value::Array(items) => Ok(Value::Int(items.len() as i32)),
        other => {
            fail!(17124, "The argument to $size must be an array, but was of type: {}", other.type_name())
        }
    }
}

fn slice(values: &[Value]) -> Result<Value> {
    if values.iter().any(Value::is_nullish) {
        return Ok(Value::Null);
    }
    let Value::Array(items) = &values[0] else {
        fail!(28724, "First argument to $slice must be an array, but is of type: {}", values[0].type_name());
    };
    let number = |value: &Value, codes: (i32, i32)| {
        if !value.is_number() {
            fail!(codes.0, "arguments to $slice must be numeric, but one is of type: {}", value.type_name());
        }
        match value.to_i32_exact() {
            Some(number) => Ok(i64::from(number)),
            None => fail!(codes.1, "arguments to $slice can't be represented as a 32-bit integer: {value}"),
        }
    };
    let first = number(&values[1], (28725, 28726))?;
    let length = items.len() as i64;
    let (start, count) = match values.get(2) {
        None if first < 0 => ((length + first).max(0), length),
        None => (0, first),
        Some(count) => {
            let count = number(count, (28727, 28728))?;
            if count <= 0 {
                fail!(28729, "Third argument to $slice must be positive: {count}");
            }
            (if first < 0 { (length + first).max(0) } else { first }, count)
        }
    };
    Ok(Value::array(items.iter().skip(start as usize).take(count as usize).cloned().collect()))
}

fn index_of(collation: &Collation, values: &[Value]) -> Result<Value> {
    let items = match &values[0] {
        value if value.is_nullish() => return Ok(Value::Null),
        Value::Array(items) => items,
        other => {
            fail!(40090, "$indexOfArray requires an array as a first argument, found: {}", other.type_name())
        }
    };
    let bound = |at: usize| -> Result<Option<usize>> {
        let Some(value) = values.get(at) else { return Ok(None) };
        let Some(number) = value.to_i32_exact() else {
            fail!(9711600, "$indexOfArray requires an integral index, found: {}", value.type_name());
        };
        match usize::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => fail!(9711601, "$indexOfArray requires a nonnegative index, found: {number}"),
        }
    };
    let start = bound(2)?.unwrap_or(0);
    let end = bound(3)?.unwrap_or(items.len()).min(items.len());
    let found = (start..end).find(|at| order::equal_by(collation, &items[*at], &values[1]));
    Ok(Value::Int(found.map_or(-1, |at| at as i32)))
}

/// Bytes that an array made by `$range` may take.
const RANGE_BYTES_MAX: i64 = 64 * 1024 * 1024;

fn range(values: &[Value]) -> Result<Value> {
    let number = |at: usize, codes: (i32, i32), what: &str| {
        let value = &values[at];
        if !value.is_number() {
            fail!(
                codes.0,
                "$range requires a numeric {what} value, found value of type: {}",
                value.type_name()
            );
        }
        match value.to_i32_exact() {
            Some(number) => Ok(i64::from(number)),
            None => fail!(codes.1, "$range requires a {what} value that is a 32-bit integer, found: {value}"),
        }
    };
    let start = number(0, (34443, 34444), "starting")?;
    let end = number(1, (34445, 34446), "ending")?;
    let step = if values.len() > 2 { number(2, (34447, 34448), "step")? } else { 1 };
    if step == 0 {
        fail!(34449, "$range requires a non-zero step value");
    }
    let count = if step > 0 { (end - start + step - 1) / step } else { (start - end - step - 1) / -step };
    let count = count.max(0);
    if count * 16 > RANGE_BYTES_MAX {
        fail!(146, "$range would use too much memory: {count} elements");
    }
    Ok(Value::array((0..count).map(|at| Value::Int((start + at * step) as i32)).collect()))
}

fn reverse(value: &Value) -> Result<Value> {
    match value {
        value if value.is_nullish() => Ok(Value::Null),
        Value::Array(items) => Ok(Value::array(items.iter().rev().cloned().collect())),
        other => {
            fail!(34435, "The argument to $reverseArray must be an array, but was {}", other.type_name())
        }
    }
}
