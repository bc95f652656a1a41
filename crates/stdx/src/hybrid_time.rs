//! Times of commits and versions that order also commits of one millisecond.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

const COUNTER_BITS: u32 = 16;

/// 48 bits of milliseconds since the Unix epoch, and 16 of a counter within the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct HybridTime(pub u64);

impl HybridTime {
    pub fn milliseconds(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    pub fn counter(self) -> u16 {
        self.0 as u16
    }

    /// Whole seconds since the Unix epoch.
    pub fn seconds(self) -> u64 {
        self.milliseconds() / 1000
    }

    /// The first time of a second.
    pub const fn from_seconds(seconds: u64) -> HybridTime {
        HybridTime::from_milliseconds(seconds.saturating_mul(1000))
    }

    /// The first time of a millisecond. Milliseconds after the year 10889 become the last ones that there are.
    pub const fn from_milliseconds(milliseconds: u64) -> HybridTime {
        let last = u64::MAX >> COUNTER_BITS;
        HybridTime(if milliseconds < last { milliseconds } else { last } << COUNTER_BITS)
    }

    /// The time that follows, in the next millisecond where the counter is at its end.
    #[must_use]
    pub fn next(self) -> HybridTime {
        HybridTime(self.0.saturating_add(1))
    }
}

/// The first time of the millisecond.
impl From<Timestamp> for HybridTime {
    fn from(time: Timestamp) -> HybridTime {
        HybridTime::from_milliseconds(time.milliseconds())
    }
}

impl From<HybridTime> for Timestamp {
    fn from(time: HybridTime) -> Timestamp {
        Timestamp(time.milliseconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_its_milliseconds_and_then_its_counter() {
        let time = HybridTime::from(Timestamp(1_700_000_000_123));
        assert_eq!((time.milliseconds(), time.counter()), (1_700_000_000_123, 0));
        let later = HybridTime(time.0 + 7);
        assert_eq!((later.milliseconds(), later.counter()), (1_700_000_000_123, 7));
        assert!(time < later && later < HybridTime::from(Timestamp(1_700_000_000_124)));
        assert_eq!(HybridTime::from(Timestamp(u64::MAX)).milliseconds(), (1 << 48) - 1);
        assert_eq!((later.seconds(), Timestamp::from(later)), (1_700_000_000, Timestamp(1_700_000_000_123)));
        assert_eq!(HybridTime::from_seconds(7), HybridTime::from(Timestamp(7_000)));
        assert_eq!(HybridTime::from_seconds(u64::MAX).milliseconds(), (1 << 48) - 1);
    }

    #[test]
    fn the_next_time_is_later_and_carries() {
        let time = HybridTime::from(Timestamp(9));
        assert_eq!(time.next().counter(), 1);
        let last = HybridTime(time.0 | u64::from(u16::MAX));
        assert_eq!(last.next(), HybridTime::from(Timestamp(10)));
        assert_eq!(HybridTime(u64::MAX).next(), HybridTime(u64::MAX));
    }
}
