//! Times of the clock's elapsed time, which heat and history count in, as the times of day that clients show.

use std::time::Duration;

use shardlake_stdx::Timestamp;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    now: Timestamp,
    elapsed: Duration,
}

impl Moments {
    pub fn new(now: Timestamp, elapsed: Duration) -> Moments {
        Moments { now, elapsed }
    }

    /// Times on a clock that is ahead by this much.
    pub fn ahead(&self, by: Duration) -> Moments {
        Moments { now: self.now, elapsed: self.elapsed + by }
    }

    /// Unix milliseconds.
    pub fn of(&self, moment: Duration) -> u64 {
        let start = i128::from(self.now.milliseconds()) - self.elapsed.as_millis() as i128;
        u64::try_from(start + moment.as_millis() as i128).unwrap_or(0)
    }

    /// When a period began.
    pub fn of_period(&self, number: u32, period_seconds: u32) -> u64 {
        self.of(Duration::from_secs(u64::from(number) * u64::from(period_seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_is_counted_back_from_now() {
        let moments = Moments::new(Timestamp(1_000_000), Duration::from_millis(90_500));
        assert_eq!(moments.of(Duration::from_millis(90_500)), 1_000_000);
        assert_eq!(moments.of_period(1, 60), 1_000_000 - 30_500);
    }
}
