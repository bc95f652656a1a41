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
        }
        assert_eq!(compact(Timestamp(1_795_421_828_009)), "20261123-081708-009");
    }
}
