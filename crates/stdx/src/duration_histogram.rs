//! Histogram of durations that many threads observe at once: one counter per bucket, no lock and no memory per observation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in nanoseconds. Point operations take tens of microseconds, a durable write a fraction of a
/// millisecond, and a slow disk seconds.
const BOUNDS_NANOS: [u64; BOUNDS] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];
const BOUNDS: usize = 16;

const _: () = {
    let mut bound = 1;
    while bound < BOUNDS {
        assert!(BOUNDS_NANOS[bound - 1] < BOUNDS_NANOS[bound], "the bounds ascend");
        bound += 1;
    }
};

#[derive(Debug, Default)]
pub struct DurationHistogram {
    /// By bucket; the last one has no upper bound.
    counts: [AtomicU64; BOUNDS + 1],
    nanos: AtomicU64,
}

/// The observations of a histogram at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct DurationCounts {
    /// Upper bound in seconds and the observations in this bucket alone, ascending. The last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    pub seconds: f64,
}

impl DurationHistogram {
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NANOS.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Observations that arrive meanwhile may be counted and not summed.
    pub fn counts(&self) -> DurationCounts {
        let bounds = BOUNDS_NANOS.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        DurationCounts {
            count: buckets.iter().map(|(_, count)| count).sum(),
            seconds: self.nanos.load(Ordering::Relaxed) as f64 / 1e9,
            buckets,
        }
    }
}

impl DurationCounts {
    /// The sum of several histograms; `None` where there is none.
    pub fn sum(all: impl IntoIterator<Item = DurationCounts>) -> Option<DurationCounts> {
        all.into_iter().reduce(|mut sum, other| {
            assert_eq!(sum.buckets.len(), other.buckets.len(), "histograms have the same bounds");
            for ((_, count), (_, more)) in sum.buckets.iter_mut().zip(&other.buckets) {
                *count += more;
            }
            sum.count += other.count;
            sum.seconds += other.seconds;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_counted_in_the_first_bucket_that_is_wide_enough() {
        let histogram = DurationHistogram::default();
        for micros in [0, 50, 51, 10_000_000, 10_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        histogram.observe(Duration::MAX);
        let counts = histogram.counts();
        let of = |bound: f64| counts.buckets.iter().find(|(found, _)| *found == bound).expect("a bound").1;
        assert_eq!((of(0.00005), of(0.0001), of(10.0), of(f64::INFINITY)), (2, 1, 1, 2));
        assert_eq!(counts.count, 6);
        let twice = DurationCounts::sum([counts.clone(), counts]).expect("two histograms");
        assert_eq!((twice.count, twice.buckets[0].1), (12, 4));
    }
}
