//! Functions of points in time. Texts are read and printed by `calendar.rs`; numbers are ticks of 100
//! nanoseconds or milliseconds, both since 1970. Unknown parts, texts that are not times, and results outside
//! the years 1601 to 9999 are undefined.

use shardlake_document::Number;

use crate::functions::calendar::{Date, Moment, TICKS_PER_DAY, TICKS_PER_MILLISECOND, TICKS_PER_SECOND};
use crate::functions::call::{Call, int, owned_text};
use crate::value::datum::Datum;

/// A part of a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Part {
    /// Case is ignored, as in the documentation and in clients.
    fn named(name: &str) -> Option<Part> {
        Some(match &*name.to_ascii_lowercase() {
            "year" | "yyyy" | "yy" | "y" => Part::Year,
            "month" | "mm" | "m" => Part::Month,
            "day" | "dd" | "d" => Part::Day,
            "hour" | "hh" => Part::Hour,
            "minute" | "mi" | "n" => Part::Minute,
            "second" | "ss" | "s" => Part::Second,
            "millisecond" | "ms" => Part::Millisecond,
            "microsecond" | "mcs" => Part::Microsecond,
            "nanosecond" | "ns" => Part::Nanosecond,
            _ => return None,
        })
    }

    /// Nanoseconds in the part; years and months have no fixed length.
    fn nanoseconds(self) -> Option<i128> {
        Some(match self {
            Part::Year | Part::Month => return None,
            Part::Day => 86_400_000_000_000,
            Part::Hour => 3_600_000_000_000,
            Part::Minute => 60_000_000_000,
            Part::Second => 1_000_000_000,
            Part::Millisecond => 1_000_000,
            Part::Microsecond => 1000,
            Part::Nanosecond => 1,
        })
    }
}

const NANOSECONDS_PER_TICK: i128 = 100;

fn moment(call: &Call<'_, '_>, index: usize) -> Option<Moment> {
    Moment::parse(call.text(index)?)
}

fn part_of(call: &Call<'_, '_>, index: usize) -> Option<Part> {
    Part::named(call.text(index)?)
}

pub(super) fn printed<'a>(moment: Moment) -> Datum<'a> {
    owned_text(moment.to_string())
}

pub(super) fn add<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    plus(moment(call, 2)?, part_of(call, 0)?, call.integer(1)?).map(printed)
}

pub(super) fn ago<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    plus(current(call)?, part_of(call, 0)?, call.integer(1)?.checked_neg()?).map(printed)
}

/// Fractions of a tick are cut off.
fn plus(moment: Moment, part: Part, count: i64) -> Option<Moment> {
    match part {
        Part::Year => moment.plus_months(count.checked_mul(12)?),
        Part::Month => moment.plus_months(count),
        _ => {
            let nanoseconds = i128::from(count) * part.nanoseconds()?;
            moment.plus_ticks(i64::try_from(nanoseconds / NANOSECONDS_PER_TICK).ok()?)
        }
    }
}

/// The number of boundaries of a part between two times; negative when the second is the earlier.
pub(super) fn difference<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (part, start, end) = (part_of(call, 0)?, moment(call, 1)?, moment(call, 2)?);
    let ordinal = |moment: Moment| {
        let date = moment.date();
        match (part, part.nanoseconds()) {
            (Part::Year, _) => i128::from(date.year),
            (_, None) => i128::from(date.year * 12 + date.month),
            (_, Some(length)) => (i128::from(moment.ticks()) * NANOSECONDS_PER_TICK).div_euclid(length),
        }
    };
    let count = ordinal(end) - ordinal(start);
    Some(i64::try_from(count).map_or_else(|_| Datum::Number(Number::Double(count as f64)), int))
}

/// The value of a part. Those below a second count the whole fraction: .1301617 s has 130 milliseconds, 130161 microseconds.
pub(super) fn part<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(int(value_of(part_of(call, 0)?, moment(call, 1)?)))
}

pub(super) fn field<'a>(call: &Call<'_, 'a>, part: Part) -> Option<Datum<'a>> {
    Some(int(value_of(part, moment(call, 0)?)))
}

pub(super) fn value_of(part: Part, moment: Moment) -> i64 {
    let Date { year, month, day } = moment.date();
    let seconds = moment.ticks_of_day() / TICKS_PER_SECOND;
    let fraction = moment.ticks_of_day() % TICKS_PER_SECOND;
    match part {
        Part::Year => year,
        Part::Month => month,
        Part::Day => day,
        Part::Hour => seconds / 3600,
        Part::Minute => seconds / 60 % 60,
        Part::Second => seconds % 60,
        Part::Millisecond => fraction / TICKS_PER_MILLISECOND,
        Part::Microsecond => fraction / 10,
        Part::Nanosecond => fraction * 100,
    }
}

/// Rounds down to a whole number of bins since the origin, which is 1970 or the fourth argument. A bin has at least a tick; its
/// size may have a fraction.
pub(super) fn bin<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (moment_in, part) = (moment(call, 0)?, part_of(call, 1)?);
    let size = if call.count() > 2 { call.double(2)? } else { 1.0 };
    let epoch = Moment::from_ticks(0)?;
    let origin = if call.count() > 3 { moment(call, 3)? } else { epoch };
    let ticks_of_part = part.nanoseconds()? as f64 / NANOSECONDS_PER_TICK as f64;
    // The conversion saturates, and makes 0 of NaN.
    let length = (ticks_of_part * size) as i128;
    if length < 1 {
        return None;
    }
    let since = i128::from(moment_in.ticks()) - i128::from(origin.ticks());
    let ticks = i128::from(origin.ticks()) + since.div_euclid(length) * length;
    Moment::from_ticks(i64::try_from(ticks).ok()?).map(printed)
}

/// Year, month, day, then hour, minute, second and the fraction in ticks.
pub(super) fn from_parts<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let date = Date { year: call.integer(0)?, month: call.integer(1)?, day: call.integer(2)? };
    let within = |index, below| call.integer_or(index, 0).filter(|value| (0..below).contains(value));
    let seconds = within(3, 24)? * 3600 + within(4, 60)? * 60 + within(5, 60)?;
    // Digits beyond the seventh are cut off.
    let mut fraction = within(6, i64::MAX)?;
    while fraction >= TICKS_PER_SECOND {
        fraction /= 10;
    }
    let ticks = seconds * TICKS_PER_SECOND + fraction;
    Moment::new(date, ticks).map(printed)
}

pub(super) fn to_ticks<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(int(moment(call, 0)?.ticks()))
}

pub(super) fn to_timestamp<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(int(moment(call, 0)?.ticks() / TICKS_PER_MILLISECOND))
}

/// When the query began, for every row of it.
fn current(call: &Call<'_, '_>) -> Option<Moment> {
    call.context.has_told_time.set(true);
    let milliseconds = i64::try_from(call.context.now.milliseconds()).ok()?;
    Moment::from_ticks(milliseconds.checked_mul(TICKS_PER_MILLISECOND)?)
}

pub(super) fn now<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    current(call).map(printed)
}

pub(super) fn now_ticks<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(int(current(call)?.ticks()))
}

pub(super) fn now_timestamp<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(int(current(call)?.ticks().div_euclid(TICKS_PER_MILLISECOND)))
}

const _: () = assert!(TICKS_PER_DAY == 864_000_000_000, "a tick is 100 nanoseconds");
