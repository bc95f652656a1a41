//! `$bitAnd`, `$bitOr`, `$bitXor`, `$bitNot`.

use super::operator::{MANY, Operator, between, exactly};
use crate::error::{Result, fail};
use crate::value::Value;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$bitAnd" => between(0, MANY, |_, values| join(values, "$bitAnd", -1, |left, right| left & right)),
        "$bitOr" => between(0, MANY, |_, values| join(values, "$bitOr", 0, |left, right| left | right)),
        "$bitXor" => between(0, MANY, |_, values| join(values, "$bitXor", 0, |left, right| left ^ right)),
        "$bitNot" => exactly(1, |_, values| invert(&values[0])),
        _ => None,
    }
}

fn join(values: &[Value], name: &str, start: i64, function: fn(i64, i64) -> i64) -> Result<Value> {
    let (mut result, mut wide) = (start, false);
    for value in values {
        let number = match value {
            value if value.is_nullish() => return Ok(Value::Null),
            Value::Int(value) => i64::from(*value),
            Value::Long(value) => {
                wide = true;
                *value
            }
            other => fail!(14, "{name} only supports int and long operands, not {}", other.type_name()),
        };
        result = function(result, number);
    }
    Ok(if wide { Value::Long(result) } else { Value::Int(result as i32) })
}

fn invert(value: &Value) -> Result<Value> {
    Ok(match value {
        value if value.is_nullish() => Value::Null,
        Value::Int(value) => Value::Int(!value),
        Value::Long(value) => Value::Long(!value),
        other => fail!(28765, "$bitNot only supports int and long, not {}", other.type_name()),
    })
}
