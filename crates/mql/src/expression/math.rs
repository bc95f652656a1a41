//! Powers, roots, logarithms, trigonometry.

use super::arithmetic::multiply_integers;
use super::operator::{MANY, Operator, between, exactly};
use crate::decimal::Decimal;
use crate::error::{Result, fail};
use crate::value::Value;
use std::cmp::Ordering;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$pow" => exactly(2, |_, values| power(&values[0], &values[1])),
        "$sqrt" => exactly(1, |_, values| square_root(&values[0])),
        "$exp" => exactly(1, |_, values| one("$exp", &values[0], f64::exp, Decimal::exp)),
        "$ln" => exactly(1, |_, values| logarithm("$ln", 28766, &values[0], f64::ln, Decimal::ln)),
        "$log10" => {
            exactly(1, |_, values| logarithm("$log10", 28761, &values[0], f64::log10, Decimal::log10))
        }
        "$log" => exactly(2, |_, values| log(&values[0], &values[1])),
        "$sigmoid" => between(0, MANY, |_, values| sigmoid(values)),
        "$sin" => exactly(1, |_, values| periodic("$sin", &values[0], f64::sin, Decimal::sin)),
        "$cos" => exactly(1, |_, values| periodic("$cos", &values[0], f64::cos, Decimal::cos)),
        "$tan" => exactly(1, |_, values| periodic("$tan", &values[0], f64::tan, Decimal::tan)),
        "$asin" => {
            exactly(1, |_, values| bounded("$asin", &values[0], (-1, Some(1)), f64::asin, Decimal::asin))
        }
        "$acos" => {
            exactly(1, |_, values| bounded("$acos", &values[0], (-1, Some(1)), f64::acos, Decimal::acos))
        }
        "$atanh" => {
            exactly(1, |_, values| bounded("$atanh", &values[0], (-1, Some(1)), f64::atanh, inverse_tanh))
        }
        "$acosh" => {
            exactly(1, |_, values| bounded("$acosh", &values[0], (1, None), f64::acosh, Decimal::acosh))
        }
        "$atan" => exactly(1, |_, values| one("$atan", &values[0], f64::atan, Decimal::atan)),
        "$atan2" => exactly(2, |_, values| atan2(&values[0], &values[1])),
        "$sinh" => exactly(1, |_, values| one("$sinh", &values[0], f64::sinh, Decimal::sinh)),
        "$cosh" => exactly(1, |_, values| one("$cosh", &values[0], f64::cosh, Decimal::cosh)),
        "$tanh" => exactly(1, |_, values| one("$tanh", &values[0], f64::tanh, Decimal::tanh)),
        "$asinh" => exactly(1, |_, values| one("$asinh", &values[0], f64::asinh, Decimal::asinh)),
        "$degreesToRadians" => exactly(1, |_, values| {
            one("$degreesToRadians", &values[0], to_radians, |value| value.turned(true))
        }),
        "$radiansToDegrees" => exactly(1, |_, values| {
            one("$radiansToDegrees", &values[0], to_degrees, |value| value.turned(false))
        }),
        _ => None,
    }
}

fn to_radians(value: f64) -> f64 {
    value * (std::f64::consts::PI / 180.0)
}

fn to_degrees(value: f64) -> f64 {
    value * (180.0 / std::f64::consts::PI)
}

fn inverse_tanh(value: Decimal) -> Decimal {
    let one = Decimal::from_i64(1);
    if value.abs().compare(one).is_eq() { Decimal::infinity(value.is_negative()) } else { value.atanh() }
}

/// Applies a function to a double or a decimal; integers become doubles.
fn one(name: &str, value: &Value, double: fn(f64) -> f64, decimal: fn(Decimal) -> Decimal) -> Result<Value> {
    Ok(match value {
        value if value.is_nullish() => Value::Null,
        Value::Decimal(value) => Value::Decimal(if value.is_nan() { *value } else { decimal(*value) }),
        value => match value.to_f64() {
            Some(value) => Value::Double(double(value)),
            None => fail!(28765, "{name} only supports numeric types, not {}", value.type_name()),
        },
    })
}

fn periodic(
    name: &str,
    value: &Value,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Value> {
    if value.to_f64().is_some_and(f64::is_infinite) {
        fail!(50989, "cannot apply {name} to {value}, value must be in (-inf,inf)");
    }
    one(name, value, double, decimal)
}

fn bounded(
    name: &str,
    value: &Value,
    (least, most): (i64, Option<i64>),
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Value> {
    if value.is_number() && !value.is_nan() {
        let order = |bound: i64| crate::order::compare(value, &Value::Long(bound));
        if order(least) == Ordering::Less || most.is_some_and(|most| order(most) == Ordering::Greater) {
            fail!(50989, "cannot apply {name} to {value}: value is out of range");
        }
    }
    one(name, value, double, decimal)
}

fn atan2(y: &Value, x: &Value) -> Result<Value> {
    if y.is_nullish() || x.is_nullish() {
        return Ok(Value::Null);
    }
    for value in [y, x] {
        if !value.is_number() {
            fail!(51044, "$atan2 only supports numeric types, not {}", value.type_name());
        }
    }
    if let (Value::Decimal(_), _) | (_, Value::Decimal(_)) = (y, x) {
        let (y, x) = (y.to_decimal().unwrap_or(Decimal::NAN), x.to_decimal().unwrap_or(Decimal::NAN));
        return Ok(Value::Decimal(if y.is_nan() || x.is_nan() { Decimal::NAN } else { y.atan2(x) }));
    }
    Ok(Value::Double(y.to_f64().unwrap_or(f64::NAN).atan2(x.to_f64().unwrap_or(f64::NAN))))
}

fn square_root(value: &Value) -> Result<Value> {
    if value.is_number() && !value.is_nan() && crate::order::compare(value, &Value::Int(0)).is_lt() {
        fail!(28714, "$sqrt's argument must be greater than or equal to 0");
    }
    one("$sqrt", value, f64::sqrt, Decimal::square_root)
}

fn logarithm(
    name: &str,
    code: i32,
    value: &Value,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Value> {
    if value.is_number() && !value.is_nan() && crate::order::compare(value, &Value::Int(0)).is_le() {
        fail!(code, "{name}'s argument must be a positive number, but is {value}");
    }
    if value.is_nan() {
        // A decimal that is no number has the type of its logarithm from the test for positive numbers.
        return Ok(Value::Double(f64::NAN));
    }
    one(name, value, double, decimal)
}

fn log(value: &Value, base: &Value) -> Result<Value> {
    if value.is_nullish() || base.is_nullish() {
        return Ok(Value::Null);
    }
    if !value.is_number() {
        fail!(28756, "$log's argument must be numeric, not {}", value.type_name());
    }
    if !base.is_number() {
        fail!(28757, "$log's base must be numeric, not {}", base.type_name());
    }
    let above = |value: &Value, bound: i32| crate::order::compare(value, &Value::Int(bound)).is_gt();
    if !value.is_nan() && !above(value, 0) {
        fail!(28758, "$log's argument must be a positive number, but is {value}");
    }
    if !base.is_nan() && (!above(base, 0) || crate::order::equal(base, &Value::Int(1))) {
        fail!(28759, "$log's base must be a positive number not equal to 1, but is {base}");
    }
    if let (Value::Decimal(_), _) | (_, Value::Decimal(_)) = (value, base) {
        let (value, base) = (value.to_decimal(), base.to_decimal());
        return Ok(match (value, base) {
            (Some(value), Some(base)) if !value.is_nan() && !base.is_nan() => Value::Decimal(value.log(base)),
            _ => Value::Double(f64::NAN),
        });
    }
    let (value, base) = (value.to_f64().unwrap_or(f64::NAN), base.to_f64().unwrap_or(f64::NAN));
    Ok(Value::Double(value.ln() / base.ln()))
}

fn sigmoid(values: &[Value]) -> Result<Value> {
    let [value] = values else {
        fail!(14, "$sigmoid takes exactly 1 argument, {} were passed in", values.len())
    };
    if !value.is_number() && !value.is_nullish() {
        fail!(14, "$sigmoid only supports numeric types, not {}", value.type_name());
    }
    one(
        "$sigmoid",
        value,
        |value| 1.0 / (1.0 + (-value).exp()),
        |value| Decimal::from_i64(1).divide(Decimal::from_i64(1).add(value.negated().exp())),
    )
}

fn power(base: &Value, exponent: &Value) -> Result<Value> {
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Value::Null);
    }
    if !base.is_number() {
        fail!(28762, "$pow's base must be numeric, not {}", base.type_name());
    }
    if !exponent.is_number() {
        fail!(28763, "$pow's exponent must be numeric, not {}", exponent.type_name());
    }
    let zero = Value::Int(0);
    let sign = crate::order::compare(exponent, &zero);
    if crate::order::equal(base, &zero) && sign.is_lt() && !exponent.is_nan() {
        fail!(28764, "$pow cannot take a base of 0 and a negative exponent");
    }
    if let (Value::Decimal(_), _) | (_, Value::Decimal(_)) = (base, exponent) {
        let (base, exponent) = (base.to_decimal(), exponent.to_decimal());
        return Ok(Value::Decimal(match (base, exponent) {
            (Some(base), Some(exponent)) => base.power(exponent),
            _ => Decimal::NAN,
        }));
    }
    let in_doubles = || {
        let (base, exponent) = (base.to_f64().unwrap_or(f64::NAN), exponent.to_f64().unwrap_or(f64::NAN));
        Ok(Value::Double(base.powf(exponent)))
    };
    if let (Value::Double(_), _) | (_, Value::Double(_)) = (base, exponent) {
        return in_doubles();
    }
    integer_power(base, exponent).map_or_else(in_doubles, Ok)
}

/// The power of two integers, where it fits 64 bits.
fn integer_power(base: &Value, exponent: &Value) -> Option<Value> {
    let narrow = matches!((base, exponent), (Value::Int(_), Value::Int(_)));
    let (number, times) = (base.to_i64_exact()?, exponent.to_i64_exact()?);
    let result = match (number, times) {
        (1, _) => 1,
        (-1, _) => {
            if times % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => return None,
        _ => number.checked_pow(u32::try_from(times).ok()?)?,
    };
    let one = if narrow { Value::Int(1) } else { Value::Long(1) };
    Some(multiply_integers(&one, &Value::Long(result))).map(|value| match value {
        Value::Long(value) if narrow => crate::value::int_or_long(value),
        other => other,
    })
}
