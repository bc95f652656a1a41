//! `DATETIMEFORMAT`: a point in time printed by a format text.
//!
//! The reference documents examples only; they follow the custom formats of .NET in English, and so does this:
//!
//! | in the format | becomes |
//! |---|---|
//! | `yyyy`, `yyy`, `yy`, `y` | the year, with at least four or three digits; its last two; its last one or two |
//! | `MMMM`, `MMM`, `MM`, `M` | the month: name, three letters, two digits, one or two digits |
//! | `dddd`, `ddd`, `dd`, `d` | the day: weekday, three letters of it, day of the month in two digits, in one or two |
//! | `HH`, `H`, `hh`, `h` | the hour from 0 to 23, and from 1 to 12 |
//! | `mm`, `m`, `ss`, `s` | minute and second |
//! | `f` to `fffffff`, `F` to `FFFFFFF` | decimals of the second; with `F` without zeros at their end |
//! | `tt`, `t` | `AM` or `PM`, or its first letter |
//! | `K`, `zzz`, `zz`, `z` | `Z`, `+00:00`, `+00`, `+0` |
//! | `g` | `A.D.` |
//! | `\x`, `'text'`, `"text"` | the character, the text |
//!
//! All other characters are printed unchanged. The result is undefined for an empty format, an open quote, a
//! backslash at the end, and too many decimals.

use crate::error::SqlError;
use crate::functions::calendar::{Moment, TICKS_PER_MILLISECOND, TICKS_PER_SECOND};
use crate::functions::call::{Call, owned_text};
use crate::functions::date_time::{Part, printed, value_of};
use crate::value::datum::{Datum, grow};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(super) fn format<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(text), Some(format)) = (call.text(0), call.text(1)) else { return Ok(None) };
    let Some(moment) = Moment::parse(text) else { return Ok(None) };
    of_moment(moment, format)
}

/// The second argument is a pattern as for `DateTimeFormat`.
pub(super) fn from_ticks<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    formatted(call, call.integer(0))
}

pub(super) fn from_timestamp<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    formatted(call, call.integer(0).and_then(|milliseconds| milliseconds.checked_mul(TICKS_PER_MILLISECOND)))
}

fn formatted<'a>(call: &Call<'_, 'a>, ticks: Option<i64>) -> Result<Option<Datum<'a>>, SqlError> {
    let Some(moment) = ticks.and_then(Moment::from_ticks) else { return Ok(None) };
    match (call.count(), call.text(1)) {
        (..2, _) => Ok(Some(printed(moment))),
        (_, Some(format)) => of_moment(moment, format),
        (_, None) => Ok(None),
    }
}

pub(super) fn of_moment<'a>(moment: Moment, format: &str) -> Result<Option<Datum<'a>>, SqlError> {
    if format.is_empty() {
        return Ok(None);
    }
    let (mut out, mut size, mut rest) = (String::new(), 0, format);
    while !rest.is_empty() {
        let before = out.len();
        match next(rest, moment, &mut out) {
            Some(after) => rest = after,
            None => return Ok(None),
        }
        grow(&mut size, out.len() - before)?;
    }
    Ok(Some(owned_text(out)))
}

/// Prints the first specifier, quotation or character of a format and returns the rest of the format.
fn next<'f>(format: &'f str, moment: Moment, out: &mut String) -> Option<&'f str> {
    let first = format.chars().next()?;
    let after_first = &format[first.len_utf8()..];
    match first {
        '\\' => {
            let escaped = after_first.chars().next()?;
            out.push(escaped);
            Some(&after_first[escaped.len_utf8()..])
        }
        '\'' | '"' => {
            let (quoted, after) = after_first.split_once(first)?;
            out.push_str(quoted);
            Some(after)
        }
        _ => {
            let after = format.trim_start_matches(first);
            let count = (format.len() - after.len()) / first.len_utf8();
            specify(first, count, moment, out)?;
            Some(after)
        }
    }
}

fn specify(letter: char, count: usize, moment: Moment, out: &mut String) -> Option<()> {
    let value = |part| value_of(part, moment);
    let ticks = moment.ticks_of_day() % TICKS_PER_SECOND;
    match letter {
        'y' if count <= 2 => digits(value(Part::Year) % 100, count, out),
        'y' => digits(value(Part::Year), count, out),
        'M' if count > 2 => name(MONTHS[value(Part::Month) as usize - 1], count, out),
        'M' => digits(value(Part::Month), count, out),
        'd' if count > 2 => name(WEEKDAYS[moment.weekday()], count, out),
        'd' => digits(value(Part::Day), count, out),
        'H' => digits(value(Part::Hour), count.min(2), out),
        'h' => digits((value(Part::Hour) + 11) % 12 + 1, count.min(2), out),
        'm' => digits(value(Part::Minute), count.min(2), out),
        's' => digits(value(Part::Second), count.min(2), out),
        'f' | 'F' => {
            let decimals = format!("{ticks:07}");
            let decimals = decimals.get(..count)?;
            out.push_str(if letter == 'F' { decimals.trim_end_matches('0') } else { decimals });
        }
        't' => {
            let half = if value(Part::Hour) < 12 { "AM" } else { "PM" };
            out.push_str(&half[..count.min(2)]);
        }
        'K' => out.extend(std::iter::repeat_n('Z', count)),
        'z' => out.push_str(["+0", "+00", "+00:00"][count.min(3) - 1]),
        'g' => out.push_str("A.D."),
        _ => out.extend(std::iter::repeat_n(letter, count)),
    }
    Some(())
}

/// At least `width` digits; a format may ask for more than any number has.
fn digits(value: i64, width: usize, out: &mut String) {
    let digits = value.to_string();
    out.extend(std::iter::repeat_n('0', width.saturating_sub(digits.len())));
    out.push_str(&digits);
}

/// Three letters, or all of them.
fn name(name: &str, count: usize, out: &mut String) {
    out.push_str(if count == 3 { &name[..3] } else { name });
}
