//! Calendars, time zones, and dates as text. Times are milliseconds since 1970 in UTC.

mod calendar;
mod format;
mod parse;
mod zone;

pub(crate) use calendar::{Civil, days_from_civil, days_in_month, iso_parts, iso_to_days, week_day};
pub(crate) use format::{FormatError, check_format, format_date};
pub(crate) use parse::{parse_by_format, parse_text};
pub(crate) use zone::Zone;

pub(crate) const DAY: i64 = 86_400_000;
pub(crate) const HOUR: i64 = 3_600_000;
pub(crate) const MINUTE: i64 = 60_000;
