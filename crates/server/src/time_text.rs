//! Lengths of time in settings, such as `30m`.

use std::time::Duration;

const TIME_NUMBER_MAX: u64 = 10_000;

/// A time such as `30m`.
pub fn time(setting: &str, text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let seconds = match unit {
        "d" => 86_400,
        "h" => 3600,
        "m" => 60,
        _ => 0,
    };
    let number = digits.parse::<u64>().ok().filter(|number| (1..=TIME_NUMBER_MAX).contains(number));
    match number {
        Some(number) if seconds > 0 => Ok(Duration::from_secs(number * seconds)),
        _ => Err(format!("{setting} '{text}' is no time: write 30m, 12h or 7d for instance")),
    }
}
