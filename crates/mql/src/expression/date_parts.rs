//! `$year`, `$month` and the other parts of a date; `$dateToParts`, `$dateFromParts`.

use super::arguments::{Signature, value_of};
use super::date_arguments::{millis_of, zone_of};
use super::env::Env;
use super::operands::{At, list_of};
use super::operator::NamedFunction;
use super::tree::{Expression, Tree};
use crate::error::{Result, error, fail};
use crate::time::{self, Civil, Zone};
use crate::value::{Document, Value};

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let function: NamedFunction = match name {
        "$year" => |_, values| part(values, |civil| civil.year),
        "$month" => |_, values| part(values, |civil| civil.month),
        "$dayOfMonth" => |_, values| part(values, |civil| civil.day),
        "$hour" => |_, values| part(values, |civil| civil.hour),
        "$minute" => |_, values| part(values, |civil| civil.minute),
        "$second" => |_, values| part(values, |civil| civil.second),
        "$millisecond" => |_, values| part(values, |civil| civil.milli),
        "$dayOfYear" => |_, values| part(values, |civil| civil.year_day()),
        "$dayOfWeek" => |_, values| part(values, |civil| time::week_day(civil.days()) % 7 + 1),
        "$isoDayOfWeek" => |_, values| part(values, |civil| time::week_day(civil.days())),
        "$isoWeek" => |_, values| part(values, |civil| time::iso_parts(civil.days()).1),
        "$week" => |_, values| {
            part(values, |civil| (civil.year_day() - 1 + 7 - time::week_day(civil.days()) % 7) / 7)
        },
        "$isoWeekYear" => iso_week_year,
        "$dateToParts" => return parse_to_parts(operand, at),
        "$dateFromParts" => return parse_from_parts(operand, at),
        _ => return Ok(None),
    };
    let arguments = parse_date_argument(name, operand, at)?;
    Ok(Some(Expression::new(Tree::Named(function, arguments)).folded()))
}

/// The date and the zone, given by name or as the only argument.
fn parse_date_argument(name: &str, operand: &Value, at: &At<'_>) -> Result<Vec<Option<Expression>>> {
    if let Value::Document(document) = operand {
        let by_operator = document.first().is_some_and(|(name, _)| name.starts_with('$'));
        if !by_operator {
            if let Some((other, _)) =
                document.iter().find(|(name, _)| !matches!(&***name, "date" | "timezone"))
            {
                fail!(40535, "unrecognized option to {name}: \"{other}\"");
            }
            let date =
                document.get("date").ok_or_else(|| error!(40539, "missing 'date' argument to {name}"))?;
            let zone = document.get("timezone").map(|zone| at.parse(zone)).transpose()?;
            return Ok(vec![Some(at.parse(date)?), zone]);
        }
    }
    let [date] = list_of(operand) else {
        fail!(
            40536,
            "{name} accepts exactly one argument if given an array, but was given {}",
            list_of(operand).len()
        );
    };
    Ok(vec![Some(at.parse(date)?), None])
}

/// The clock on the wall at a date; `None` where date or zone are null.
fn civil(values: &[Option<Value>]) -> Result<Option<Civil>> {
    let date = value_of(&values[0]);
    if date.is_nullish() {
        // The zone is looked at in any case.
        zone_of(&values[1])?;
        return Ok(None);
    }
    let Some(millis) = millis_of(date) else {
        fail!(16006, "can't convert from BSON type {} to Date", date.type_name());
    };
    let Some(zone) = zone_of(&values[1])? else { return Ok(None) };
    Ok(Some(Civil::from_millis(zone.to_wall(millis))))
}

fn part(values: &[Option<Value>], part: fn(&Civil) -> i64) -> Result<Value> {
    Ok(civil(values)?.map_or(Value::Null, |civil| Value::Int(part(&civil) as i32)))
}

fn iso_week_year(_: &mut Env, values: &[Option<Value>]) -> Result<Value> {
    Ok(civil(values)?.map_or(Value::Null, |civil| Value::Long(time::iso_parts(civil.days()).0)))
}

fn parse_to_parts(operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let signature = Signature {
        operator: "$dateToParts",
        names: &["date", "timezone", "iso8601"],
        required: &[40522],
        not_an_object: 40524,
        unknown: 40520,
    };
    signature.call(operand, at, |_, values| to_parts(values))
}

fn to_parts(values: &[Option<Value>]) -> Result<Value> {
    let iso = match &values[2] {
        None => false,
        Some(value) if value.is_nullish() => return Ok(Value::Null),
        Some(Value::Bool(iso)) => *iso,
        Some(other) => fail!(40521, "iso8601 must evaluate to a bool, found {}", other.type_name()),
    };
    let Some(civil) = civil(values)? else { return Ok(Value::Null) };
    let mut parts = Document::new();
    let (year, week, day) = time::iso_parts(civil.days());
    let dates = if iso {
        [("isoWeekYear", year), ("isoWeek", week), ("isoDayOfWeek", day)]
    } else {
        [("year", civil.year), ("month", civil.month), ("day", civil.day)]
    };
    let clock = [
        ("hour", civil.hour),
        ("minute", civil.minute),
        ("second", civil.second),
        ("millisecond", civil.milli),
    ];
    for (name, number) in dates.into_iter().chain(clock) {
        parts.push(name, Value::Int(number as i32));
    }
    Ok(Value::document(parts))
}

const PARTS: &[&str] = &[
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "isoWeekYear",
    "isoWeek",
    "isoDayOfWeek",
    "timezone",
];

fn parse_from_parts(operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let signature = Signature {
        operator: "$dateFromParts",
        names: PARTS,
        required: &[],
        not_an_object: 40519,
        unknown: 40518,
    };
    let document = signature.document(operand)?;
    let has = |name: &str| document.has(name);
    if !has("year") && !has("isoWeekYear") {
        fail!(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present");
    }
    let (natural, iso) = (has("month") || has("day"), has("isoWeek") || has("isoDayOfWeek"));
    if has("year") && (has("isoWeekYear") || iso) {
        fail!(40489, "$dateFromParts does not allow mixing natural dates with ISO dates");
    }
    if has("isoWeekYear") && natural {
        fail!(40525, "$dateFromParts does not allow mixing ISO dates with natural dates");
    }
    signature.call(operand, at, |_, values| from_parts(values))
}

fn from_parts(values: &[Option<Value>]) -> Result<Value> {
    let mut numbers = [None; 10];
    for (at, slot) in numbers.iter_mut().enumerate() {
        let Some(value) = &values[at] else { continue };
        if value.is_nullish() {
            return Ok(Value::Null);
        }
        let number = value.to_i64_exact();
        let Some(number) = number else {
            fail!(40515, "'{}' must evaluate to an integer, found {}", PARTS[at], value.type_name());
        };
        let year = matches!(PARTS[at], "year" | "isoWeekYear");
        if year && !(1..=9999).contains(&number) {
            fail!(
                40523,
                "'{}' must evaluate to an integer in the range 1 to 9999, found {number}",
                PARTS[at]
            );
        }
        let bounded = !(5..=6).contains(&at);
        if !year && bounded && i16::try_from(number).is_err() {
            fail!(
                31034,
                "'{}' must evaluate to a value in the range [-32768, 32767], found {number}",
                PARTS[at]
            );
        }
        *slot = Some(number);
    }
    let Some(zone) = zone_of(&values[10])? else { return Ok(Value::Null) };
    moment(&numbers, &zone)
}

fn moment(numbers: &[Option<i64>; 10], zone: &Zone) -> Result<Value> {
    let part = |at: usize, default: i64| numbers[at].unwrap_or(default);
    let date = match numbers[7] {
        Some(year) => {
            let days = time::iso_to_days(year, part(8, 1), part(9, 1));
            Civil::from_millis(days.saturating_mul(time::DAY))
        }
        None => Civil {
            year: part(0, 1970),
            month: part(1, 1),
            day: part(2, 1),
            hour: 0,
            minute: 0,
            second: 0,
            milli: 0,
        },
    };
    let wall = Civil { hour: part(3, 0), minute: part(4, 0), second: part(5, 0), milli: part(6, 0), ..date };
    let millis = wall.to_millis().and_then(|wall| zone.to_utc(wall));
    millis.map(Value::Date).ok_or_else(|| error!(15, "$dateFromParts: the date is out of range"))
}
