//! T-SQL's arithmetic of dates.

use sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr};
use sqlparser::tokenizer::Location;

use crate::error::{Checked, quoted, refuse};
use crate::literals::{integer_of, interval, text_of};
use crate::types::{call, number, string, timestamp};

const DAY_NANOS: u64 = 86_400_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Part {
    fn parse(part: &Expr, at: Location) -> Checked<Part> {
        let name = text_of(part).unwrap_or_default().to_ascii_lowercase();
        let part = match name.as_str() {
            "year" | "yy" | "yyyy" => Part::Year,
            "quarter" | "qq" | "q" => Part::Quarter,
            "month" | "mm" | "m" => Part::Month,
            "week" | "wk" | "ww" => Part::Week,
            "day" | "dd" | "d" => Part::Day,
            "hour" | "hh" => Part::Hour,
            "minute" | "mi" | "n" => Part::Minute,
            "second" | "ss" | "s" => Part::Second,
            "millisecond" | "ms" => Part::Millisecond,
            _ => {
                return refuse(
                    at,
                    format!("the part '{name}' of a date is not translated"),
                    "parts are year, quarter, month, week, day, hour, minute, second and millisecond",
                );
            }
        };
        Ok(part)
    }

    fn name(self) -> &'static str {
        match self {
            Part::Year => "year",
            Part::Quarter => "quarter",
            Part::Month => "month",
            Part::Week => "week",
            Part::Day => "day",
            Part::Hour => "hour",
            Part::Minute => "minute",
            Part::Second => "second",
            Part::Millisecond => "millisecond",
        }
    }

    /// Nanoseconds of a part that has always as many.
    fn nanos(self) -> Option<u64> {
        match self {
            Part::Year | Part::Quarter | Part::Month => None,
            Part::Week => Some(7 * DAY_NANOS),
            Part::Day => Some(DAY_NANOS),
            Part::Hour => Some(3_600_000_000_000),
            Part::Minute => Some(60_000_000_000),
            Part::Second => Some(1_000_000_000),
            Part::Millisecond => Some(1_000_000),
        }
    }
}

pub(crate) fn add(part: &Expr, count: &Expr, date: Expr, at: Location) -> Checked<Expr> {
    let part = Part::parse(part, at)?;
    let Some(count) = integer_of(count) else {
        return refuse(
            at,
            format!("DATEADD of {} is not translated: the number is not written out", quoted(count)),
            "write CAST(text AS TIMESTAMP) + INTERVAL '1 day' with a number in the text",
        );
    };
    let (count, unit) = match part {
        Part::Quarter => (count.checked_mul(3), "month"),
        Part::Week => (count.checked_mul(7), "day"),
        part => (Some(count), part.name()),
    };
    let Some(count) = count.filter(|count| count.unsigned_abs() <= i32::MAX as u64) else {
        return refuse(at, "the number of DATEADD is too large", "");
    };
    Ok(nested(binary(as_timestamp(date), BinaryOperator::Plus, interval(count, unit))))
}

/// T-SQL counts boundaries between both dates.
pub(crate) fn difference(part: &Expr, from: Expr, to: Expr, at: Location) -> Checked<Expr> {
    let part = Part::parse(part, at)?;
    let count = |date: Expr| match part {
        Part::Year => date_part("year", date),
        Part::Quarter => months(date, 4, "quarter"),
        Part::Month => months(date, 12, "month"),
        // T-SQL's weeks begin on Sunday, those of date_trunc on Monday.
        Part::Week => nanos(call(
            "date_trunc",
            vec![
                string("week"),
                nested(binary(as_timestamp(date), BinaryOperator::Plus, interval(1, "day"))),
            ],
        )),
        part => nanos(call("date_trunc", vec![string(part.name()), as_timestamp(date)])),
    };
    let difference = nested(binary(count(to), BinaryOperator::Minus, count(from)));
    Ok(match part.nanos() {
        None => difference,
        Some(nanos) => nested(binary(difference, BinaryOperator::Divide, number(nanos))),
    })
}

pub(crate) fn part(part: &Expr, date: Expr, at: Location) -> Checked<Expr> {
    match Part::parse(part, at)? {
        Part::Week => refuse(
            at,
            "weeks of the year are counted in several ways",
            "write date_part('week', …) for those of ISO 8601",
        ),
        Part::Second => Ok(cast(call("floor", vec![date_part("second", date)]), DataType::Int(None))),
        Part::Millisecond => refuse(
            at,
            "DATEPART of milliseconds is not translated",
            "write date_part('millisecond', …), which counts seconds, too",
        ),
        part => Ok(date_part(part.name(), date)),
    }
}

pub(crate) fn truncated(part: &Expr, date: Expr, at: Location) -> Checked<Expr> {
    match Part::parse(part, at)? {
        Part::Week => {
            refuse(at, "weeks begin on several days", "write date_trunc('week', …) for weeks from Monday")
        }
        part => Ok(call("date_trunc", vec![string(part.name()), as_timestamp(date)])),
    }
}

fn date_part(name: &str, date: Expr) -> Expr {
    call("date_part", vec![string(name), as_timestamp(date)])
}

fn months(date: Expr, of_year: u64, name: &str) -> Expr {
    let years = binary(date_part("year", date.clone()), BinaryOperator::Multiply, number(of_year));
    nested(binary(years, BinaryOperator::Plus, date_part(name, date)))
}

fn nanos(date: Expr) -> Expr {
    cast(cast(date, timestamp()), DataType::BigInt(None))
}

/// Dates in documents are texts.
fn as_timestamp(date: Expr) -> Expr {
    match &date {
        Expr::Cast { data_type: DataType::Timestamp(..), .. } => date,
        _ => cast(date, timestamp()),
    }
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}
