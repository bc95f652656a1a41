//! Units of time: adding, rounding down, and counting them.

use crate::error::{Result, error, fail};
use crate::time::{self, Civil, DAY, FormatError, HOUR, MINUTE, Zone};
use crate::value::Value;

/// A unit that dates are moved by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateUnit {
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

impl DateUnit {
    pub fn parse(name: &str) -> Option<DateUnit> {
        Some(match name {
            "year" => DateUnit::Year,
            "quarter" => DateUnit::Quarter,
            "month" => DateUnit::Month,
            "week" => DateUnit::Week,
            "day" => DateUnit::Day,
            "hour" => DateUnit::Hour,
            "minute" => DateUnit::Minute,
            "second" => DateUnit::Second,
            "millisecond" => DateUnit::Millisecond,
            _ => return None,
        })
    }

    /// Milliseconds of units that are always as long.
    pub fn millis(self) -> Option<i64> {
        Some(match self {
            DateUnit::Week => 7 * DAY,
            DateUnit::Day => DAY,
            DateUnit::Hour => HOUR,
            DateUnit::Minute => MINUTE,
            DateUnit::Second => 1000,
            DateUnit::Millisecond => 1,
            DateUnit::Year | DateUnit::Quarter | DateUnit::Month => return None,
        })
    }

    fn months(self) -> i64 {
        match self {
            DateUnit::Year => 12,
            DateUnit::Quarter => 3,
            _ => 1,
        }
    }
}

/// A date as ISO text in UTC.
pub(super) fn iso_text(millis: i64) -> Result<String> {
    match time::format_date(millis, "%Y-%m-%dT%H:%M:%S.%LZ", &Zone::UTC) {
        Ok(text) => Ok(text),
        Err(FormatError::Year | FormatError::Format) => {
            fail!(
                18537,
                "Could not convert date to string: date component was outside the supported range of 0-9999: {millis}"
            )
        }
    }
}

/// Moves a date by units; months end at the last day that they have.
pub(crate) fn add_units(millis: i64, unit: DateUnit, amount: i64, zone: &Zone) -> Result<i64> {
    let overflow = || error!(5166406, "date overflow in $dateAdd");
    let moved = match unit.millis() {
        Some(length) if length < DAY => {
            amount.checked_mul(length).and_then(|by| millis.checked_add(by)).ok_or_else(overflow)?
        }
        Some(length) => {
            let wall = zone.to_wall(millis);
            let moved =
                amount.checked_mul(length).and_then(|by| wall.checked_add(by)).ok_or_else(overflow)?;
            zone.to_utc(moved).ok_or_else(overflow)?
        }
        None => {
            let civil = Civil::from_millis(zone.to_wall(millis));
            let months = amount.checked_mul(unit.months()).ok_or_else(overflow)?;
            let total = (civil.year * 12 + civil.month - 1).checked_add(months).ok_or_else(overflow)?;
            let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
            if year.abs() > 300_000_000 {
                return Err(overflow());
            }
            let day = civil.day.min(time::days_in_month(year, month));
            let moved = Civil { year, month, day, ..civil }.to_millis().ok_or_else(overflow)?;
            zone.to_utc(moved).ok_or_else(overflow)?
        }
    };
    Ok(moved)
}

/// The day from which `$dateTrunc` counts.
const REFERENCE: Civil = Civil { year: 2000, month: 1, day: 1, hour: 0, minute: 0, second: 0, milli: 0 };

/// The start of the bin of so many units that a date lies in.
pub(super) fn truncate(
    millis: i64,
    unit: DateUnit,
    size: i64,
    start_of_week: i64,
    zone: &Zone,
) -> Result<i64> {
    let overflow = || error!(5439005, "date overflow in $dateTrunc");
    let reference = REFERENCE.to_millis().unwrap_or(0);
    match unit.millis() {
        Some(length) if length < DAY => {
            let bin = i128::from(length) * i128::from(size);
            let start = zone.to_utc(reference).ok_or_else(overflow)?;
            let distance = (i128::from(millis) - i128::from(start)).div_euclid(bin) * bin;
            i64::try_from(i128::from(start) + distance).map_err(|_| overflow())
        }
        Some(length) => {
            let wall = zone.to_wall(millis);
            let mut start = reference;
            if unit == DateUnit::Week {
                // The first day of a week at or after the reference.
                let first = time::week_day(reference / DAY);
                start += (start_of_week - first).rem_euclid(7) * DAY;
            }
            let bin = i128::from(length) * i128::from(size);
            let distance = (i128::from(wall) - i128::from(start)).div_euclid(bin) * bin;
            let wall = i64::try_from(i128::from(start) + distance).map_err(|_| overflow())?;
            zone.to_utc(wall).ok_or_else(overflow)
        }
        None => {
            let civil = Civil::from_millis(zone.to_wall(millis));
            let bin = size.checked_mul(unit.months()).ok_or_else(overflow)?;
            let months = ((civil.year - REFERENCE.year) * 12 + civil.month - 1).div_euclid(bin) * bin;
            let year = REFERENCE.year + months.div_euclid(12);
            let wall = Civil { year, month: months.rem_euclid(12) + 1, ..REFERENCE };
            wall.to_millis().and_then(|wall| zone.to_utc(wall)).ok_or_else(overflow)
        }
    }
}

/// How many borders of units lie between two dates.
pub(super) fn difference(
    start: i64,
    end: i64,
    unit: DateUnit,
    start_of_week: i64,
    zone: &Zone,
) -> Result<Value> {
    let (from, to) = (zone.to_wall(start), zone.to_wall(end));
    let (first, last) = (Civil::from_millis(from), Civil::from_millis(to));
    Ok(Value::Long(match unit {
        DateUnit::Year => last.year - first.year,
        DateUnit::Quarter => {
            (last.year * 4 + (last.month - 1) / 3) - (first.year * 4 + (first.month - 1) / 3)
        }
        DateUnit::Month => (last.year * 12 + last.month) - (first.year * 12 + first.month),
        DateUnit::Week => {
            // 1970 began on a Thursday, the fourth day.
            let week = |days: i64| (days + 4 - start_of_week).div_euclid(7);
            week(last.days()) - week(first.days())
        }
        DateUnit::Day => last.days() - first.days(),
        DateUnit::Millisecond => match end.checked_sub(start) {
            Some(difference) => difference,
            None => fail!(5166308, "date difference overflows"),
        },
        unit => {
            let length = unit.millis().unwrap_or(1);
            // Hours and shorter units count by the clock on the wall at the start.
            let offset = from - start;
            (end + offset).div_euclid(length) - (start + offset).div_euclid(length)
        }
    }))
}

/// The day of the week by its name or first three letters: 1 for Monday.
pub(super) fn week_day_number(name: &str) -> Option<i64> {
    let days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let lower = name.to_ascii_lowercase();
    days.iter()
        .position(|day| lower == *day || (lower.len() == 3 && day.starts_with(&lower)))
        .map(|at| at as i64 + 1)
}
