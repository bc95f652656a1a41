//! Days, months, years and ISO weeks of the Gregorian calendar, without bounds on the year.

use super::{DAY, HOUR, MINUTE};

/// A point in time by the local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub milli: i64,
}

impl Civil {
    pub fn from_millis(millis: i64) -> Civil {
        let (days, rest) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: rest / HOUR,
            minute: rest % HOUR / MINUTE,
            second: rest % MINUTE / 1000,
            milli: rest % 1000,
        }
    }

    /// Milliseconds since 1970; parts beyond their range carry over. `None` where that does not fit.
    pub fn to_millis(self) -> Option<i64> {
        let days = i128::from(days_from_civil(self.year, self.month, 1)) + i128::from(self.day) - 1;
        let clock = i128::from(self.hour) * i128::from(HOUR)
            + i128::from(self.minute) * i128::from(MINUTE)
            + i128::from(self.second) * 1000
            + i128::from(self.milli);
        i64::try_from(days * i128::from(DAY) + clock).ok()
    }

    /// The day of the year, from 1.
    pub fn year_day(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day) - days_from_civil(self.year, 1, 1) + 1
    }

    pub fn days(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day)
    }
}

/// Days since 1970 of a date; the month may lie outside of 1 to 12.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    // The year begins in March, so that a leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1)
}

/// The day of the week of a day since 1970: 1 for Monday to 7 for Sunday.
pub(crate) fn week_day(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// ISO year, week and day of the week of a day since 1970.
pub(crate) fn iso_parts(days: i64) -> (i64, i64, i64) {
    let day = week_day(days);
    // The Thursday of a week determines its year.
    let thursday = days - day + 4;
    let (year, ..) = civil_from_days(thursday);
    let week = (thursday - days_from_civil(year, 1, 1)) / 7 + 1;
    (year, week, day)
}

/// The day since 1970 of an ISO date; parts beyond their range carry over.
pub(crate) fn iso_to_days(year: i64, week: i64, day: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - week_day(fourth) + 1 + (week - 1) * 7 + (day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-1_000_000..1_000_000).step_by(997) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            let (year, week, day) = iso_parts(days);
            assert_eq!(iso_to_days(year, week, day), days);
        }
    }
}
