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
}

/// The first time of a millisecond. Milliseconds after the year 10889 become the last ones that there are.
impl From<Timestamp> for HybridTime {
    fn from(time: Timestamp) -> HybridTime {
        HybridTime(time.milliseconds().min(u64::MAX >> COUNTER_BITS) << COUNTER_BITS)
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
    }
}
