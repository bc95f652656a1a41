//! Wall-clock and elapsed time, real or set by hand.
#![allow(clippy::disallowed_methods)] // the one place that reads the real clock

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    pub fn milliseconds(self) -> u64 {
        self.0
    }
}

/// Time source of the program. Cloning shares a manual clock's hands.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    #[default]
    System,
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that stands still at `start` until [`Clock::advance`] moves it.
    pub fn manual(start: Timestamp) -> Self {
        Clock::Manual(Arc::new(AtomicU64::new(start.0)))
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
                Timestamp(since_epoch.as_millis() as u64)
            }
            Clock::Manual(milliseconds) => Timestamp(milliseconds.load(Ordering::SeqCst)),
        }
    }

    /// Time elapsed since an arbitrary fixed point; never goes backwards.
    pub fn elapsed(&self) -> Duration {
        match self {
            Clock::System => {
                static START: OnceLock<Instant> = OnceLock::new();
                START.get_or_init(Instant::now).elapsed()
            }
            Clock::Manual(milliseconds) => Duration::from_millis(milliseconds.load(Ordering::SeqCst)),
        }
    }

    /// Time elapsed since the machine was started, in which it may have slept.
    pub fn since_boot(&self) -> Duration {
        match self {
            Clock::System => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
            }
            Clock::Manual(milliseconds) => Duration::from_millis(milliseconds.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock forward.
    ///
    /// # Panics
    /// On the system clock, which cannot be moved.
    pub fn advance(&self, by: Duration) {
        match self {
            Clock::System => panic!("the system clock cannot be advanced"),
            Clock::Manual(milliseconds) => {
                milliseconds.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = Clock::manual(Timestamp(5_000));
        let twin = clock.clone();
        assert_eq!(clock.now().seconds(), 5);
        clock.advance(Duration::from_millis(2_500));
        assert_eq!(twin.now(), Timestamp(7_500));
    }

    #[test]
    fn the_system_clock_is_past_2020_and_elapsed_never_decreases() {
        let clock = Clock::System;
        assert!(clock.now().seconds() > 1_577_836_800);
        assert!(clock.since_boot() >= clock.elapsed());
        let first = clock.elapsed();
        assert!(clock.elapsed() >= first);
    }
}
