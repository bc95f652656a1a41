//! Values that the server makes for documents, each above the ones before it: ObjectIds and timestamps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use shardlake_stdx::{Random, Timestamp};

/// Bits of an ObjectId's counter, below its seconds.
const COUNTER_BITS: u32 = 24;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// Sequences of this process. A sequence never goes back, also where the clock does.
#[derive(Debug, Default)]
pub(crate) struct Ascending {
    /// Random bytes of this process, and the first value of the counter.
    process: OnceLock<([u8; 5], u64)>,
    /// Seconds and counter of the latest ObjectId.
    object_id: AtomicU64,
    /// Seconds and increment of the latest timestamp; the owner of partitions continues the same sequence.
    timestamp: Arc<AtomicU64>,
}

impl Ascending {
    pub fn continuing(timestamp: Arc<AtomicU64>) -> Ascending {
        Ascending { timestamp, ..Ascending::default() }
    }

    /// Seconds, process, counter: ids of one process sort in the order in which they were made.
    pub fn object_id(&self, now: Timestamp, random: &Random) -> [u8; 12] {
        let (process, first) = self.process.get_or_init(|| {
            let mut bytes = [0; 5];
            random.fill(&mut bytes);
            (bytes, random.below(COUNTER_MASK / 2))
        });
        let seconds = now.seconds();
        let latest = raised(&self.object_id, |latest| {
            let counter = if latest == 0 { *first } else { latest + 1 };
            (seconds << COUNTER_BITS) | (counter & COUNTER_MASK)
        });
        assert!(u32::try_from(latest >> COUNTER_BITS).is_ok(), "the seconds of an id fit its field");
        let mut id = [0; 12];
        id[..4].copy_from_slice(&((latest >> COUNTER_BITS) as u32).to_be_bytes());
        id[4..9].copy_from_slice(process);
        id[9..].copy_from_slice(&(latest as u32).to_be_bytes()[1..]);
        id
    }

    /// The latest timestamp, for updates that continue from it.
    pub fn latest_timestamp(&self) -> Arc<AtomicU64> {
        self.timestamp.clone()
    }

    /// A time for a field that asks the server for one: seconds and increment of the cluster's time now, or above.
    pub fn timestamp(&self, (seconds, increment): (u32, u32)) -> (u32, u32) {
        let latest = raised(&self.timestamp, |_| (u64::from(seconds) << 32) | u64::from(increment));
        let requested = (u64::from(seconds) << 32) | u64::from(increment);
        assert!(latest >= requested, "a timestamp is never below the time of the cluster");
        ((latest >> 32) as u32, latest as u32)
    }
}

/// Raises a value to the result of `next`, but at least by one.
fn raised(value: &AtomicU64, next: impl Fn(u64) -> u64) -> u64 {
    let raise = |latest: u64| Some(next(latest).max(latest + 1));
    match value.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise) {
        Ok(latest) | Err(latest) => next(latest).max(latest + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_times_ascend_while_the_clock_stands_or_goes_back() {
        let (ascending, random) = (Ascending::default(), Random::seeded(7));
        let times = [5_000, 5_000, 5_001, 4_000, 6_000, 6_000].map(Timestamp);
        let ids = times.map(|now| ascending.object_id(now, &random));
        assert!(ids.is_sorted_by(|left, right| left < right), "{ids:?}");
        assert!(ids.iter().all(|id| id[4..9] == ids[0][4..9]), "one process: {ids:?}");
        let stamps = times.map(|now| ascending.timestamp((now.seconds() as u32, 1)));
        assert!(stamps.is_sorted_by(|left, right| left < right), "{stamps:?}");
        assert_eq!(stamps[4].0, 6, "the clock's second");
    }

    #[test]
    fn a_full_counter_carries_into_the_seconds() {
        let (ascending, random) = (Ascending::default(), Random::seeded(7));
        ascending.object_id.store((9 << COUNTER_BITS) | COUNTER_MASK, Ordering::Relaxed);
        let next = ascending.object_id(Timestamp(9_500), &random);
        assert_eq!(next[..4], [0, 0, 0, 10]);
    }
}
