//! Window of a load report, and whether the report shows the course of the load.

use std::time::Duration;

use shardlake_account::Series;
use shardlake_model::{Error, Result};

const DEFAULT: Duration = Duration::from_secs(60);
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// How far back the periods of one length reach: by seconds, minutes, ten minutes, hours.
const REACHES: [(u32, u64); 4] = [(1, 10 * MINUTE), (60, 6 * HOUR), (600, 4 * DAY), (3600, 28 * DAY)];

/// The first that reaches far enough is the finest one.
const _: () =
    assert!(REACHES[0].1 < REACHES[1].1 && REACHES[1].1 < REACHES[2].1 && REACHES[2].1 < REACHES[3].1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub length: Duration,
    /// The series is shown if the request names a window.
    shows_series: bool,
}

impl Default for Window {
    fn default() -> Self {
        Window { length: DEFAULT, shows_series: false }
    }
}

impl Window {
    /// Reads `90s`, `10m`, `6h` or `28d`.
    pub fn of(text: Option<&str>) -> Result<Window> {
        let Some(text) = text else { return Ok(Window::default()) };
        let unit = [("s", 1), ("m", MINUTE), ("h", HOUR), ("d", DAY)]
            .into_iter()
            .find_map(|(suffix, seconds)| Some((text.strip_suffix(suffix)?, seconds)));
        let seconds = unit.and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(unit));
        let longest = REACHES[REACHES.len() - 1].1;
        match seconds.filter(|seconds| (1..=longest).contains(seconds)) {
            Some(seconds) => Ok(Window { length: Duration::from_secs(seconds), shows_series: true }),
            None => Err(Error::bad_request(format!(
                "the window '{text}' is invalid: write 1s to 28d, such as 10m, 6h, 4d or 28d"
            ))),
        }
    }

    /// The finest series that reaches as far back as the window, where it is to be shown.
    pub fn series<'s>(&self, all: &'s [Series]) -> Option<&'s Series> {
        let reach = REACHES.into_iter().find(|(_, reach)| self.length.as_secs() <= *reach)?;
        all.iter().find(|series| self.shows_series && u64::from(series.period_seconds) == u64::from(reach.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_numbers_with_a_unit() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("6h", 21_600), ("28d", 2_419_200)] {
            assert_eq!(Window::of(Some(text)).expect(text).length.as_secs(), seconds);
        }
        for wrong in ["", "0s", "10", "m", "29d", "-1m", "1.5h", "99999999999999999999d", "213503982334602d"]
        {
            assert!(Window::of(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_finest_series_that_reaches_is_shown_to_those_who_ask() {
        let series = |period_seconds| Series { period_seconds, points: Vec::new() };
        let all: Vec<Series> = REACHES.iter().map(|(period, _)| series(*period)).collect();
        let shown = |text| {
            let window = Window::of(Some(text)).expect(text);
            window.series(&all).map(|series| series.period_seconds)
        };
        assert_eq!(
            [shown("10m"), shown("11m"), shown("6h"), shown("4d"), shown("28d")].map(Option::unwrap),
            [1, 60, 60, 600, 3600]
        );
        assert!(Window::default().series(&all).is_none());
    }
}
