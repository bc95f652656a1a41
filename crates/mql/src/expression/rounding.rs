//! `$ceil`, `$floor`, `$round`, `$trunc`.

use crate::decimal::{Decimal, Rounding};
use crate::error::{Result, fail};
use crate::value::{Value, int_or_long};

pub(super) fn ceil(value: &Value) -> Result<Value> {
    whole(value, "$ceil", f64::ceil, Rounding::Ceiling)
}

pub(super) fn floor(value: &Value) -> Result<Value> {
    whole(value, "$floor", f64::floor, Rounding::Floor)
}

fn whole(value: &Value, name: &str, function: fn(f64) -> f64, rounding: Rounding) -> Result<Value> {
    Ok(match value {
        value if value.is_nullish() => Value::Null,
        Value::Int(_) | Value::Long(_) => value.clone(),
        Value::Double(value) => Value::Double(function(*value)),
        // As in MongoDB, an infinity and a decimal above 34 digits are no number with the exponent zero.
        Value::Decimal(value) if value.is_infinite() => Value::Decimal(Decimal::NAN),
        Value::Decimal(value) => Value::Decimal(value.quantized(0, rounding)),
        other => fail!(28765, "{name} only supports numeric types, not {}", other.type_name()),
    })
}

pub(super) fn round(values: &[Value]) -> Result<Value> {
    to_place(values, "$round", Rounding::HalfEven)
}

pub(super) fn trunc(values: &[Value]) -> Result<Value> {
    to_place(values, "$trunc", Rounding::Down)
}

fn to_place(values: &[Value], name: &str, rounding: Rounding) -> Result<Value> {
    let (value, place) = (&values[0], values.get(1).unwrap_or(&Value::Int(0)));
    if value.is_nullish() || place.is_nullish() {
        return Ok(Value::Null);
    }
    if !value.is_number() {
        fail!(51081, "{name} only supports numeric types, not {}", value.type_name());
    }
    if !place.is_number() {
        fail!(16004, "{name} only supports numeric types for its precision, not {}", place.type_name());
    }
    if place.to_f64().is_some_and(f64::is_infinite) || matches!(place, Value::Double(place) if place.is_nan())
    {
        fail!(31109, "Can't coerce out of range value {place} to long");
    }
    let Some(place) = place.to_i64_exact() else {
        fail!(51082, "precision argument to {name} must be an integral value");
    };
    if !(-20..=100).contains(&place) {
        fail!(51083, "cannot apply {name} with precision value {place}: value must be in [-20, 100]");
    }
    at_place(value, name, place as i32, rounding)
}

fn at_place(value: &Value, name: &str, place: i32, rounding: Rounding) -> Result<Value> {
    Ok(match value {
        Value::Int(_) | Value::Long(_) if place >= 0 => value.clone(),
        Value::Int(_) | Value::Long(_) => {
            let own = value.to_i64_exact().unwrap_or(0);
            let rounded = Decimal::from_i64(own).quantized(-place, rounding).to_integer().unwrap_or(0);
            match (i64::try_from(rounded), value) {
                (Ok(rounded), Value::Int(_)) => int_or_long(rounded),
                (Ok(rounded), _) => Value::Long(rounded),
                (Err(_), _) => fail!(51080, "invalid conversion in {name}: the result does not fit int64"),
            }
        }
        Value::Double(value) if value.is_infinite() => Value::Double(*value),
        Value::Double(value) => {
            Value::Double(Decimal::from_f64_exact(*value).quantized(-place, rounding).to_f64())
        }
        Value::Decimal(value) if value.is_infinite() => Value::Decimal(*value),
        Value::Decimal(value) => Value::Decimal(value.quantized(-place, rounding)),
        _ => Value::Null,
    })
}
