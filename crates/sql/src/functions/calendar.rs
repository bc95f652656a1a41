//! Points in time: ticks of 100 nanoseconds since 1970, dates of the Gregorian calendar, and the ISO 8601 texts between.
//!
//! Years run from 1601 to 9999 and every day has 86,400 seconds. Texts are UTC: `YYYY-MM-DD`, optionally with `T` (or a space)
//! and `hh:mm:ss`, a fraction of one to seven digits and `Z`. Other offsets are not read.

pub(super) const TICKS_PER_SECOND: i64 = 10_000_000;
pub(super) const TICKS_PER_MILLISECOND: i64 = 10_000;
pub(super) const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;

/// A point in time between the years 1601 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    ticks: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
}

const FIRST_YEAR: i64 = 1601;
const YEARS: std::ops::RangeInclusive<i64> = FIRST_YEAR..=9999;

impl Moment {
    const FIRST: i64 = days_before(FIRST_YEAR, 1) * TICKS_PER_DAY;
    const END: i64 = days_before(10_000, 1) * TICKS_PER_DAY;

    pub fn from_ticks(ticks: i64) -> Option<Moment> {
        (Self::FIRST..Self::END).contains(&ticks).then_some(Moment { ticks })
    }

    /// The midnight that begins a date, and a time of day in ticks.
    pub fn new(date: Date, ticks_of_day: i64) -> Option<Moment> {
        let is_date = YEARS.contains(&date.year)
            && (1..=12).contains(&date.month)
            && (1..=days_in_month(date.year, date.month)).contains(&date.day);
        let is_time = (0..TICKS_PER_DAY).contains(&ticks_of_day);
        let days = || days_before(date.year, date.month) + date.day - 1;
        (is_date && is_time).then(|| Moment { ticks: days() * TICKS_PER_DAY + ticks_of_day })
    }

    /// Since 1970.
    pub fn ticks(self) -> i64 {
        self.ticks
    }

    pub fn ticks_of_day(self) -> i64 {
        self.ticks.rem_euclid(TICKS_PER_DAY)
    }

    /// 0 is Sunday.
    pub fn weekday(self) -> usize {
        (self.ticks.div_euclid(TICKS_PER_DAY) + 4).rem_euclid(7) as usize
    }

    /// Counts years from March, so that the leap day is the last of its year.
    pub fn date(self) -> Date {
        const DAYS_PER_ERA: i64 = 146_097;
        let days = self.ticks.div_euclid(TICKS_PER_DAY) + DAYS_FROM_MARCH_0_TO_1970;
        let (era, of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Date { year: era * 400 + year_of_era + i64::from(month <= 2), month, day }
    }

    /// The same time of day after a number of months; a day that the month lacks becomes its last one.
    pub fn plus_months(self, months: i64) -> Option<Moment> {
        let Date { year, month, day } = self.date();
        let months = (year * 12 + month - 1).checked_add(months)?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        if !YEARS.contains(&year) {
            return None;
        }
        Moment::new(Date { year, month, day: day.min(days_in_month(year, month)) }, self.ticks_of_day())
    }

    pub fn plus_ticks(self, ticks: i64) -> Option<Moment> {
        Moment::from_ticks(self.ticks.checked_add(ticks)?)
    }

    pub fn parse(text: &str) -> Option<Moment> {
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let mut parts = date.split('-');
        let mut part = |count| digits(parts.next()?, count);
        let date = Date { year: part(4)?, month: part(2)?, day: part(2)? };
        if parts.next().is_some() {
            return None;
        }
        Moment::new(date, time.map_or(Some(0), parse_time)?)
    }
}

/// The text `YYYY-MM-DDThh:mm:ss.fffffffZ`.
impl std::fmt::Display for Moment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Date { year, month, day } = self.date();
        let ticks = self.ticks_of_day();
        let (seconds, fraction) = (ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
    }
}

const DAYS_FROM_MARCH_0_TO_1970: i64 = 719_468;

/// Days from 1970 to the first of a month; negative before.
const fn days_before(year: i64, month: i64) -> i64 {
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * from_march + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year
        - DAYS_FROM_MARCH_0_TO_1970
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    let next = if month == 12 { days_before(year + 1, 1) } else { days_before(year, month + 1) };
    next - days_before(year, month)
}

/// The ticks of a time of day.
fn parse_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, parse_fraction(fraction)?),
        None => (text, 0),
    };
    let mut parts = clock.split(':');
    let mut part = |below| digits(parts.next()?, 2).filter(|value| *value < below);
    let seconds = part(24)? * 3600 + part(60)? * 60 + part(60)?;
    parts.next().is_none().then_some(seconds * TICKS_PER_SECOND + fraction)
}

/// The ticks of one to seven decimals of a second.
fn parse_fraction(text: &str) -> Option<i64> {
    let missing = 7_u32.checked_sub(u32::try_from(text.len()).ok()?)?;
    (!text.is_empty()).then_some(digits(text, text.len())? * 10_i64.pow(missing))
}

/// The value of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
