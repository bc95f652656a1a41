//! `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`, and the parts of dates by name.

use super::arguments::{Signature, value_of};
use super::dates::{DateUnit, add_units, difference, truncate, week_day_number};
use super::operands::At;
use super::tree::Expression;
use crate::error::{Result, fail};
use crate::time::Zone;
use crate::value::Value;

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let moved = |operator| Signature {
        operator,
        names: &["startDate", "unit", "amount", "timezone"],
        required: &[5166402, 5166402, 5166402],
        not_an_object: 5166400,
        unknown: 5166401,
    };
    match name {
        "$dateAdd" => moved("$dateAdd").call(operand, at, |_, values| shift(values, "$dateAdd", false)),
        "$dateSubtract" => {
            moved("$dateSubtract").call(operand, at, |_, values| shift(values, "$dateSubtract", true))
        }
        "$dateDiff" => {
            let signature = Signature {
                operator: "$dateDiff",
                names: &["startDate", "endDate", "unit", "timezone", "startOfWeek"],
                required: &[5166303, 5166304, 5166305],
                not_an_object: 5166301,
                unknown: 5166302,
            };
            signature.call(operand, at, |_, values| diff(values))
        }
        "$dateTrunc" => {
            let signature = Signature {
                operator: "$dateTrunc",
                names: &["date", "unit", "binSize", "timezone", "startOfWeek"],
                required: &[5439009, 5439010],
                not_an_object: 5439007,
                unknown: 5439008,
            };
            signature.call(operand, at, |_, values| trunc(values))
        }
        _ => Ok(None),
    }
}

/// The point in time of a date, timestamp or object id.
pub(super) fn millis_of(value: &Value) -> Option<i64> {
    match value {
        Value::Date(millis) => Some(*millis),
        Value::Timestamp(seconds, _) => Some(i64::from(*seconds) * 1000),
        Value::ObjectId([a, b, c, d, ..]) => Some(i64::from(i32::from_be_bytes([*a, *b, *c, *d])) * 1000),
        _ => None,
    }
}

/// The zone of an argument; UTC where none was given, `None` where it is null.
pub(super) fn zone_of(argument: &Option<Value>) -> Result<Option<Zone>> {
    match argument {
        None => Ok(Some(Zone::UTC)),
        Some(value) if value.is_nullish() => Ok(None),
        Some(Value::String(name)) => match Zone::parse(name) {
            Some(zone) => Ok(Some(zone)),
            None => fail!(40485, "unrecognized time zone identifier: \"{name}\""),
        },
        Some(other) => fail!(40517, "timezone must evaluate to a string, found {}", other.type_name()),
    }
}

fn unit_of(value: &Value, operator: &str, not_a_string: i32) -> Result<DateUnit> {
    let Value::String(name) = value else {
        fail!(not_a_string, "{operator} requires 'unit' to be a string, but got {}", value.type_name());
    };
    match DateUnit::parse(name) {
        Some(unit) => Ok(unit),
        None => fail!(9, "unknown time unit value: {name}"),
    }
}

fn start_of_week(argument: &Option<Value>, operator: &str) -> Result<Option<i64>> {
    match argument {
        None => Ok(Some(7)),
        Some(value) if value.is_nullish() => Ok(None),
        Some(Value::String(name)) => match week_day_number(name) {
            Some(day) => Ok(Some(day)),
            None => fail!(
                5439016,
                "{operator} parameter 'startOfWeek' value cannot be recognized as a day of a week: {name}"
            ),
        },
        Some(other) => {
            fail!(
                5439015,
                "{operator} parameter 'startOfWeek' must be a string, but got {}",
                other.type_name()
            )
        }
    }
}

fn shift(values: &[Option<Value>], operator: &str, back: bool) -> Result<Value> {
    let (start, unit, amount) = (value_of(&values[0]), value_of(&values[1]), value_of(&values[2]));
    let Some(zone) = zone_of(&values[3])? else { return Ok(Value::Null) };
    if start.is_nullish() || unit.is_nullish() || amount.is_nullish() {
        return Ok(Value::Null);
    }
    let unit = unit_of(unit, operator, 5439013)?;
    let Some(millis) = millis_of(start) else {
        fail!(
            5166403,
            "{operator} requires startDate to be convertible to a date, but got {}",
            start.type_name()
        );
    };
    let Some(amount) = amount.to_i64_exact() else {
        fail!(5166405, "{operator} expects integer amount of time units, but got {amount}");
    };
    let amount = match (back, amount.checked_neg()) {
        (false, _) => amount,
        (true, Some(amount)) => amount,
        (true, None) => fail!(6045000, "invalid $dateSubtract 'amount' parameter value: {amount}"),
    };
    check_amount(unit, amount)?;
    add_units(millis, unit, amount, &zone).map(Value::Date)
}

/// Refuses amounts that no date could be moved by.
fn check_amount(unit: DateUnit, amount: i64) -> Result<()> {
    let years: i64 = 584_942_417;
    let most = match unit {
        DateUnit::Year => years,
        DateUnit::Quarter => years * 4,
        DateUnit::Month => years * 12,
        unit => i64::MAX / unit.millis().unwrap_or(1),
    };
    if unit != DateUnit::Millisecond && (amount > most || amount < -most) {
        fail!(5976500, "invalid amount of time units: {amount}");
    }
    Ok(())
}

fn diff(values: &[Option<Value>]) -> Result<Value> {
    let (start, end, unit) = (value_of(&values[0]), value_of(&values[1]), value_of(&values[2]));
    if start.is_nullish() || end.is_nullish() || unit.is_nullish() {
        return Ok(Value::Null);
    }
    let Some(zone) = zone_of(&values[3])? else { return Ok(Value::Null) };
    let unit = unit_of(unit, "$dateDiff", 5439013)?;
    let week = if unit == DateUnit::Week { start_of_week(&values[4], "$dateDiff")? } else { Some(7) };
    let Some(week) = week else { return Ok(Value::Null) };
    let (Some(from), Some(to)) = (millis_of(start), millis_of(end)) else {
        let wrong = if millis_of(start).is_none() { start } else { end };
        fail!(5166307, "$dateDiff requires dates, but got {}", wrong.type_name());
    };
    difference(from, to, unit, week, &zone)
}

fn trunc(values: &[Option<Value>]) -> Result<Value> {
    let (date, unit) = (value_of(&values[0]), value_of(&values[1]));
    if date.is_nullish() || unit.is_nullish() {
        return Ok(Value::Null);
    }
    let size = match &values[2] {
        None => 1,
        Some(value) if value.is_nullish() => return Ok(Value::Null),
        Some(value) => match value.to_i64_exact() {
            Some(size) if size > 0 => size,
            Some(size) => {
                fail!(5439018, "$dateTrunc requires 'binSize' to be greater than 0, but got {size}")
            }
            None => fail!(5439017, "$dateTrunc requires 'binSize' to be a 64-bit integer, but got {value}"),
        },
    };
    let Some(zone) = zone_of(&values[3])? else { return Ok(Value::Null) };
    let unit = unit_of(unit, "$dateTrunc", 5439013)?;
    let week = if unit == DateUnit::Week { start_of_week(&values[4], "$dateTrunc")? } else { Some(7) };
    let Some(week) = week else { return Ok(Value::Null) };
    let Some(millis) = millis_of(date) else {
        fail!(5166307, "$dateTrunc requires 'date' to be a date, but got {}", date.type_name());
    };
    check_bin(unit, size)?;
    truncate(millis, unit, size, week, &zone).map(Value::Date)
}

fn check_bin(unit: DateUnit, size: i64) -> Result<()> {
    let (most, code) = match unit {
        DateUnit::Year => (100_000_000_000, 5439006),
        DateUnit::Quarter | DateUnit::Month => (100_000_000_000, 5439006),
        unit => (i64::MAX / unit.millis().unwrap_or(1), 5439002),
    };
    if size > most {
        fail!(code, "invalid 'binSize' parameter value: {size}");
    }
    Ok(())
}
