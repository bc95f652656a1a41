//! Times as people and file names have them, in UTC.

use shardlake_stdx::Timestamp;

const DAY_SECONDS: u64 = 86_400;

/// `2026-11-23T08:17:08Z`.
pub fn readable(time: Timestamp) -> String {
    let [year, month, day, hour, minute, second] = parts(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `20261123-081708-123`, to the millisecond.
pub fn compact(time: Timestamp) -> String {
    let [year, month, day, hour, minute, second] = parts(time);
    let millisecond = time.milliseconds() % 1000;
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{millisecond:03}")
}

/// `2026-11-23T08:17:08.123Z`.
pub fn to_the_millisecond(time: Timestamp) -> String {
    let seconds = readable(time);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), time.milliseconds() % 1000)
}

/// A time as it is written above, or without milliseconds. There is one way to write each.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("'{}' is no time in UTC such as 2026-11-23T08:17:08Z", text.escape_debug());
    let fields: Option<Vec<u64>> = text
        .split(['-', 'T', ':', '.', 'Z'])
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect();
    let (year, month, day, hour, minute, second, millisecond) = match fields.as_deref() {
        Some([year, month, day, hour, minute, second]) => (*year, *month, *day, *hour, *minute, *second, 0),
        Some([year, month, day, hour, minute, second, millisecond]) => {
            (*year, *month, *day, *hour, *minute, *second, *millisecond)
        }
        _ => return Err(wrong()),
    };
    let is_sound = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_sound || hour > 23 || minute > 59 || second > 59 || millisecond > 999 {
        return Err(wrong());
    }
    let seconds = days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    let time = Timestamp(seconds * 1000 + millisecond);
    let is_written_so = text == to_the_millisecond(time) || (millisecond == 0 && text == readable(time));
    if is_written_so { Ok(time) } else { Err(wrong()) }
}

/// Days since 1970: the inverse of [`civil`].
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let from_march = (month + 9) % 12;
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn parts(time: Timestamp) -> [u64; 6] {
    let (days, seconds) = (time.seconds() / DAY_SECONDS, time.seconds() % DAY_SECONDS);
    let (year, month, day) = civil(days);
    [year, month, day, seconds / 3600, seconds / 60 % 60, seconds % 60]
}

/// Year, month and day from days since 1970. Years begin in March here, so that the day that may be missing is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (1_795_421_828, "2026-11-23T08:17:08Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(readable(Timestamp(seconds * 1000)), text);
            assert_eq!(parse(text), Ok(Timestamp(seconds * 1000)));
        }
        assert_eq!(parse("2026-11-23T08:17:08.009Z"), Ok(Timestamp(1_795_421_828_009)));
        for wrong in [
            "",
            "now",
            "2026-11-23",
            "2026-02-30T00:00:00Z",
            "2026-11-23T08:17:08",
            "2026-11-23 08:17:08Z",
            "2026-11-23T08:17:08.9Z",
            "1969-12-31T23:59:59Z",
            "2026-11-23T24:00:00Z",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(compact(Timestamp(1_795_421_828_009)), "20261123-081708-009");
    }
}
