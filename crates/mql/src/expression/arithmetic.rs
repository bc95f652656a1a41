//! `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`, `$abs`: types widen from int32 over int64 to double, and to decimal.

use super::operator::{MANY, Operator, between, exactly};
use super::rounding;
use crate::error::{Result, error, fail};
use crate::value::{Value, double_to_i64, int_or_long};

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

/// The sum of two numbers in the wider type, also for `$inc`: of a long and a double, both count as doubles.
pub(crate) fn add_numbers(left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Decimal(_), _) | (_, Value::Decimal(_)) => {
            let (left, right) = decimals(left, right);
            Value::Decimal(left.add(right))
        }
        (Value::Double(_), _) | (_, Value::Double(_)) => Value::Double(double(left) + double(right)),
        _ => {
            let (high, low) = (left.to_i64_exact().unwrap_or(0), right.to_i64_exact().unwrap_or(0));
            let narrow = matches!((left, right), (Value::Int(_), Value::Int(_)));
            match high.checked_add(low) {
                Some(value) if narrow => int_or_long(value),
                Some(value) => Value::Long(value),
                None => Value::Double(high as f64 + low as f64),
            }
        }
    }
}

/// The sum from left to right in the widest type so far. A date takes the sum before it and each number behind it.
pub(crate) fn add(values: &[Value]) -> Result<Value> {
    let mut sum = Value::Long(0);
    for value in values {
        sum = match (&sum, value) {
            (_, value) if value.is_nullish() => return Ok(Value::Null),
            (Value::Date(_), Value::Date(_)) => fail!(16612, "only one date allowed in an $add expression"),
            (sum, Value::Date(millis)) => move_date(*millis, sum, false)?,
            (Value::Date(millis), value) if value.is_number() => move_date(*millis, value, false)?,
            (sum, value) if value.is_number() => add_numbers(sum, value),
            (_, other) => fail!(14, "$add only supports numeric or date types, not {}", other.type_name()),
        };
    }
    Ok(narrowed(sum, values))
}

/// An integer of 32 bits where all operands have 32 bits and the result fits.
fn narrowed(result: Value, operands: &[Value]) -> Value {
    match result {
        Value::Long(result) if operands.iter().all(|operand| matches!(operand, Value::Int(_))) => {
            int_or_long(result)
        }
        result => result,
    }
}

/// A date and a number of milliseconds.
fn move_date(millis: i64, by: &Value, back: bool) -> Result<Value> {
    let by = match by {
        Value::Double(value) => double_to_i64(value.round()).ok_or_else(|| error!(15, "date overflow"))?,
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

pub(crate) fn subtract(left: &Value, right: &Value) -> Result<Value> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::Null);
    }
    match (left, right) {
        (Value::Date(left), Value::Date(right)) => {
            left.checked_sub(*right).map(Value::Long).ok_or_else(|| error!(15, "overflow in $subtract"))
        }
        (Value::Date(millis), number) if number.is_number() => move_date(*millis, number, true),
        (Value::Decimal(_), _) | (_, Value::Decimal(_)) if left.is_number() && right.is_number() => {
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

pub(crate) fn multiply(values: &[Value]) -> Result<Value> {
    let mut product = Value::Long(1);
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
            _ => match multiply_integers(&product, value) {
                Value::Double(_) => Value::Double(in_doubles),
                product => product,
            },
        };
    }
    Ok(narrowed(product, values))
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

pub(crate) fn divide(left: &Value, right: &Value) -> Result<Value> {
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
