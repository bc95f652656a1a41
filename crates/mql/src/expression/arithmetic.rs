//! `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`, `$abs`: types widen from int32 over int64 to double, and to decimal.

use super::number::Sum;
use super::{MANY, Operator, between, exactly, rounding};
use crate::error::{Result, error, fail};
use crate::value::{Value, int_or_long};

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$add" => between(0, MANY, |_, values| add(values)),
        "$subtract" => exactly(2, |_, values| subtract(&values[0], &values[1])),
        "$multiply" => between(0, MANY, |_, values| multiply(values)),
        "$divide" => exactly(2, |_, values| divide(&values[0], &values[1])),
        "$mod" => exactly(2, |_, values| modulo(&values[0], &values[1])),
        "$abs" => exactly(1, |_, values| absolute(&values[0])),
        "$ceil" => exactly(1, |_, values| rounding::ceil(&values[0])),
        "$floor" => exactly(1, |_, values| rounding::floor(&values[0])),
        "$round" => between(1, 2, |_, values| rounding::round(values)),
        "$trunc" => between(1, 2, |_, values| rounding::trunc(values)),
        _ => None,
    }
}

/// The sum of two numbers, as `$inc` makes it.
pub(crate) fn add_numbers(left: &Value, right: &Value) -> Value {
    if let (Value::Double(left), Value::Double(right)) = (left, right) {
        return Value::Double(left + right);
    }
    if let Some((Value::Decimal(left), Value::Decimal(right))) = both_decimal(left, right) {
        return Value::Decimal(left.add(right));
    }
    let mut sum = Sum::default();
    sum.add(left);
    sum.add(right);
    sum.value()
}

fn both_decimal(left: &Value, right: &Value) -> Option<(Value, Value)> {
    if !matches!(left, Value::Decimal(_)) && !matches!(right, Value::Decimal(_)) {
        return None;
    }
    Some((Value::Decimal(left.to_decimal()?), Value::Decimal(right.to_decimal()?)))
}

fn add(values: &[Value]) -> Result<Value> {
    let mut sum = Sum::default();
    let mut date = None;
    let mut has_decimal = false;
    for value in values {
        match value {
            Value::Date(_) if date.is_some() => fail!(16612, "only one date allowed in an $add expression"),
            Value::Date(millis) => date = Some(*millis),
            Value::Decimal(_) => {
                has_decimal = true;
                sum.add(value);
            }
            // Once a decimal was met, a double counts with 15 digits.
            Value::Double(double) if has_decimal && double.is_finite() => {
                sum.add(&value.to_decimal().map_or(Value::Null, Value::Decimal));
            }
            value if value.is_number() => sum.add(value),
            value if value.is_nullish() => return Ok(Value::Null),
            other => {
                fail!(14, "$add only supports numeric or date types, not {}", other.type_name())
            }
        }
    }
    match date {
        None => Ok(sum.value()),
        Some(millis) => move_date(millis, &sum.value(), false),
    }
}

/// A date and a number of milliseconds.
fn move_date(millis: i64, by: &Value, back: bool) -> Result<Value> {
    let by = match by {
        Value::Double(value) if value.is_finite() && value.abs() < 9.3e18 => value.round() as i64,
        Value::Decimal(value) => {
            let whole = value.to_whole(crate::decimal::Rounding::HalfEven).to_integer();
            let whole = whole.and_then(|value| i64::try_from(value).ok());
            whole.ok_or_else(|| error!(15, "date overflow"))?
        }
        other => other.to_i64_exact().ok_or_else(|| error!(15, "date overflow"))?,
    };
    let moved = if back { millis.checked_sub(by) } else { millis.checked_add(by) };
    moved.map(Value::Date).ok_or_else(|| error!(15, "date overflow"))
}

fn subtract(left: &Value, right: &Value) -> Result<Value> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::Null);
    }
    match (left, right) {
        (Value::Date(left), Value::Date(right)) => {
            left.checked_sub(*right).map(Value::Long).ok_or_else(|| error!(15, "overflow in $subtract"))
        }
        (Value::Date(millis), number) if number.is_number() => move_date(*millis, number, true),
        (Value::Decimal(_), right) | (right, Value::Decimal(_)) if right.is_number() => {
            let (left, right) = decimals(left, right);
            Ok(Value::Decimal(left.subtract(right)))
        }
        (Value::Double(_), _) | (_, Value::Double(_)) if left.is_number() && right.is_number() => {
            Ok(Value::Double(double(left) - double(right)))
        }
        _ => subtract_integers(left, right),
    }
}

fn subtract_integers(left: &Value, right: &Value) -> Result<Value> {
    let (Some(high), Some(low)) = (left.to_i64_exact(), right.to_i64_exact()) else {
        let (left, right) = (left.type_name(), right.type_name());
        fail!(14, "can't $subtract {right} from {left}");
    };
    let narrow = matches!((left, right), (Value::Int(_), Value::Int(_)));
    Ok(match high.checked_sub(low) {
        Some(value) if narrow => int_or_long(value),
        Some(value) => Value::Long(value),
        None => Value::Double(high as f64 - low as f64),
    })
}

fn decimals(left: &Value, right: &Value) -> (crate::decimal::Decimal, crate::decimal::Decimal) {
    let nan = crate::decimal::Decimal::NAN;
    (left.to_decimal().unwrap_or(nan), right.to_decimal().unwrap_or(nan))
}

fn double(value: &Value) -> f64 {
    value.to_f64().unwrap_or(f64::NAN)
}

fn multiply(values: &[Value]) -> Result<Value> {
    let mut product = Value::Int(1);
    let mut in_doubles = 1.0;
    for value in values {
        if value.is_nullish() {
            return Ok(Value::Null);
        }
        if !value.is_number() {
            fail!(14, "$multiply only supports numeric types, not {}", value.type_name());
        }
        in_doubles *= double(value);
        product = match (&product, value) {
            (Value::Decimal(_), _) | (_, Value::Decimal(_)) => {
                let (left, right) = decimals(&product, value);
                Value::Decimal(left.multiply(right))
            }
            (Value::Double(_), _) | (_, Value::Double(_)) => Value::Double(in_doubles),
            _ => multiply_integers(&product, value),
        };
    }
    Ok(product)
}

pub(super) fn multiply_integers(left: &Value, right: &Value) -> Value {
    let narrow = matches!((left, right), (Value::Int(_), Value::Int(_)));
    let (high, low) = (left.to_i64_exact().unwrap_or(0), right.to_i64_exact().unwrap_or(0));
    match high.checked_mul(low) {
        Some(value) if narrow => int_or_long(value),
        Some(value) => Value::Long(value),
        None => Value::Double(high as f64 * low as f64),
    }
}

fn divide(left: &Value, right: &Value) -> Result<Value> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::Null);
    }
    if !left.is_number() || !right.is_number() {
        let (left, right) = (left.type_name(), right.type_name());
        fail!(14, "$divide only supports numeric types, not {left} and {right}");
    }
    if matches!(left, Value::Decimal(_)) || matches!(right, Value::Decimal(_)) {
        let (left, right) = decimals(left, right);
        if right.is_zero() {
            fail!(2, "can't $divide by zero");
        }
        return Ok(Value::Decimal(left.divide(right)));
    }
    let divisor = double(right);
    if divisor == 0.0 {
        fail!(2, "can't $divide by zero");
    }
    Ok(Value::Double(double(left) / divisor))
}

fn modulo(left: &Value, right: &Value) -> Result<Value> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::Null);
    }
    if !left.is_number() || !right.is_number() {
        let (left, right) = (left.type_name(), right.type_name());
        fail!(16611, "$mod only supports numeric types, not {left} and {right}");
    }
    if matches!(left, Value::Decimal(_)) || matches!(right, Value::Decimal(_)) {
        let (left, right) = decimals(left, right);
        if right.is_zero() {
            fail!(5733415, "can't $mod by zero");
        }
        return Ok(Value::Decimal(left.remainder(right)));
    }
    if double(right) == 0.0 {
        fail!(16610, "can't $mod by zero");
    }
    if let (Value::Double(_), _) | (_, Value::Double(_)) = (left, right) {
        return Ok(Value::Double(double(left) % double(right)));
    }
    let (dividend, divisor) = (left.to_i64_exact().unwrap_or(0), right.to_i64_exact().unwrap_or(1));
    let rest = dividend.wrapping_rem(divisor);
    let narrow = matches!((left, right), (Value::Int(_), Value::Int(_)));
    Ok(if narrow { int_or_long(rest) } else { Value::Long(rest) })
}

fn absolute(value: &Value) -> Result<Value> {
    Ok(match value {
        value if value.is_nullish() => Value::Null,
        Value::Int(value) => int_or_long(i64::from(*value).abs()),
        Value::Long(value) => match value.checked_abs() {
            Some(value) => Value::Long(value),
            None => fail!(28680, "can't take $abs of long long min"),
        },
        Value::Double(value) => Value::Double(value.abs()),
        Value::Decimal(value) => Value::Decimal(value.abs()),
        other => fail!(28765, "$abs only supports numeric types, not {}", other.type_name()),
    })
}
