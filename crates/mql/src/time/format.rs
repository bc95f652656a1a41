//! Dates as text by a format with `%` parts, as `$dateToString` writes them.

use super::calendar::{Civil, iso_parts, week_day};
use super::zone::Zone;
use std::fmt::Write;

pub(crate) const MONTHS: [&str; 12] = [
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

/// Why a date has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatError {
    /// The format has a part that is unknown, or ends within one.
    Format,
    /// The year is not one of 0 to 9999.
    Year,
}

/// Checks that a format has only the parts named.
pub(crate) fn check_format(format: &str, parts: &str) -> bool {
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter == '%' && !letters.next().is_some_and(|part| parts.contains(part)) {
            return false;
        }
    }
    true
}

pub(crate) fn format_date(millis: i64, format: &str, zone: &Zone) -> Result<String, FormatError> {
    let offset = zone.offset_at(millis);
    let civil = Civil::from_millis(millis.saturating_add(offset));
    if !check_format(format, "dGHjLmMSwuUVYzZbB%") {
        return Err(FormatError::Format);
    }
    if !(0..=9999).contains(&civil.year) {
        return Err(FormatError::Year);
    }
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let part = letters.next().ok_or(FormatError::Format)?;
        // Writing to a string never fails.
        let _ = write_part(&mut out, part, &civil, offset / 60_000);
    }
    Ok(out)
}

fn write_part(out: &mut String, part: char, civil: &Civil, minutes: i64) -> std::fmt::Result {
    let days = civil.days();
    let sunday_first = week_day(days) % 7;
    let month = MONTHS[(civil.month - 1).clamp(0, 11) as usize];
    match part {
        'd' => write!(out, "{:02}", civil.day),
        'G' => write!(out, "{:04}", iso_parts(days).0),
        'H' => write!(out, "{:02}", civil.hour),
        'j' => write!(out, "{:03}", civil.year_day()),
        'L' => write!(out, "{:03}", civil.milli),
        'm' => write!(out, "{:02}", civil.month),
        'M' => write!(out, "{:02}", civil.minute),
        'S' => write!(out, "{:02}", civil.second),
        'w' => write!(out, "{}", sunday_first + 1),
        'u' => write!(out, "{}", week_day(days)),
        'U' => write!(out, "{:02}", (civil.year_day() - 1 + 7 - sunday_first) / 7),
        'V' => write!(out, "{:02}", iso_parts(days).1),
        'Y' => write!(out, "{:04}", civil.year),
        'b' => out.write_str(&month[..3]),
        'B' => out.write_str(month),
        'z' => {
            let sign = if minutes < 0 { '-' } else { '+' };
            write!(out, "{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
        }
        'Z' => write!(out, "{minutes}"),
        other => write!(out, "{other}"),
    }
}
