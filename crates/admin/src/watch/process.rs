//! The process over time: requests that failed, latency, connections, processor, memory and disk.
//!
//! A request adds to one or two counters ([`RequestCounts`]). Once a second, the server takes their
//! difference, asks the system for the rest, and adds a sample to rings of seconds, minutes, ten
//! minutes and hours, as long as those of heat. Latency is counted in buckets, so a percentile is
//! only known to lie within its bucket: it is reported as a point between the bucket's bounds.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_account::HEAT_PERIODS;

/// Upper bounds in microseconds; the last bucket has none.
const LATENCY_BOUNDS_US: [u64; 19] = [
    25, 50, 100, 175, 250, 500, 750, 1_000, 1_750, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 2_500_000, 10_000_000,
];
const BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

/// Counted where requests are answered.
#[derive(Debug, Default)]
pub struct RequestCounts {
    failed: AtomicU64,
    latency: [AtomicU64; BUCKETS],
}

/// Gauges of a process at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessGauges {
    pub connections: u64,
    /// The connections among them of clients in Direct mode.
    pub direct_connections: u64,
    /// Processor time since the start of the process.
    pub cpu: Duration,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
}

/// Counts of one period.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessSample {
    pub failed: u64,
    latency: [u32; BUCKETS],
    /// As the period ended.
    pub connections: u64,
    pub direct_connections: u64,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    cpu: Duration,
    /// How long it was looked at.
    length: Duration,
}

#[derive(Debug, Default)]
pub struct ProcessRings(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    rings: [VecDeque<(u32, ProcessSample)>; HEAT_PERIODS.len()],
    last: Option<(Duration, Duration)>,
}

impl RequestCounts {
    /// Counts an answer to a request for data; `is_failure` is one that the server is to blame for.
    pub fn note(&self, duration: Duration, is_failure: bool) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < us);
        self.latency[bucket].fetch_add(1, Ordering::Relaxed);
        if is_failure {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take(&self) -> (u64, [u32; BUCKETS]) {
        let latency = std::array::from_fn(|bucket| {
            u32::try_from(self.latency[bucket].swap(0, Ordering::Relaxed)).unwrap_or(u32::MAX)
        });
        (self.failed.swap(0, Ordering::Relaxed), latency)
    }
}

impl ProcessRings {
    /// Adds the counts since the last time, and the present gauges.
    pub fn note(&self, now: Duration, counts: &RequestCounts, gauges: ProcessGauges) {
        let (failed, latency) = counts.take();
        let mut kept = self.0.lock().expect("nothing panics under this lock");
        let (before, cpu_before) = kept.last.replace((now, gauges.cpu)).unwrap_or((now, gauges.cpu));
        let sample = ProcessSample {
            failed,
            latency,
            connections: gauges.connections,
            direct_connections: gauges.direct_connections,
            memory_bytes: gauges.memory_bytes,
            disk_bytes: gauges.disk_bytes,
            cpu: gauges.cpu.saturating_sub(cpu_before),
            length: now.saturating_sub(before),
        };
        for (ring, (period_seconds, count)) in kept.rings.iter_mut().zip(HEAT_PERIODS) {
            let number = (now.as_secs() / u64::from(period_seconds)) as u32;
            match ring.back_mut() {
                Some((last, sum)) if *last == number => sum.add(&sample),
                _ => {
                    if ring.len() == count as usize {
                        ring.pop_front();
                    }
                    ring.push_back((number, sample));
                }
            }
        }
    }

    /// The periods of a length from one number to another; `None` for periods without a sample.
    pub(crate) fn samples(&self, period_seconds: u32, first: u32, last: u32) -> Vec<Option<ProcessSample>> {
        let mut samples = vec![None; (last - first) as usize + 1];
        let kept = self.0.lock().expect("nothing panics under this lock");
        let ring = HEAT_PERIODS.iter().position(|(seconds, _)| *seconds == period_seconds);
        for (number, sample) in ring.map(|ring| &kept.rings[ring]).into_iter().flatten() {
            if (first..=last).contains(number) {
                samples[(number - first) as usize] = Some(*sample);
            }
        }
        samples
    }
}

impl ProcessSample {
    fn add(&mut self, next: &ProcessSample) {
        self.failed += next.failed;
        for (sum, part) in self.latency.iter_mut().zip(next.latency) {
            *sum = sum.saturating_add(part);
        }
        (self.connections, self.direct_connections) = (next.connections, next.direct_connections);
        (self.memory_bytes, self.disk_bytes) = (next.memory_bytes, next.disk_bytes);
        self.cpu += next.cpu;
        self.length += next.length;
    }

    /// Processors in use, on average.
    pub fn cpu_cores(&self) -> f64 {
        let length = self.length.as_secs_f64();
        if length > 0.0 { self.cpu.as_secs_f64() / length } else { 0.0 }
    }

    /// Below which a share of the requests was answered, in milliseconds; `None` without requests.
    pub fn latency_ms(&self, share: f64) -> Option<f64> {
        let total: u64 = self.latency.iter().map(|count| u64::from(*count)).sum();
        let wanted = total as f64 * share;
        let mut below = 0.0;
        for (bucket, count) in self.latency.iter().enumerate().filter(|(_, count)| **count > 0) {
            let within = f64::from(*count);
            if below + within >= wanted {
                let low = if bucket == 0 { 0 } else { LATENCY_BOUNDS_US[bucket - 1] };
                let high = LATENCY_BOUNDS_US.get(bucket).copied().unwrap_or(low);
                let part = ((wanted - below) / within).clamp(0.0, 1.0);
                return Some((low as f64 + (high - low) as f64 * part) / 1000.0);
            }
            below += within;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauges(cpu_ms: u64) -> ProcessGauges {
        let cpu = Duration::from_millis(cpu_ms);
        ProcessGauges { connections: 3, direct_connections: 2, cpu, memory_bytes: 7, disk_bytes: 9 }
    }

    #[test]
    fn seconds_are_folded_into_minutes() {
        let (rings, counts) = (ProcessRings::default(), RequestCounts::default());
        for second in 60..180 {
            counts.note(Duration::from_micros(90), second % 10 == 0);
            rings.note(Duration::from_secs(second), &counts, gauges(second * 500));
        }
        let minutes = rings.samples(60, 0, 3);
        assert!(minutes[0].is_none() && minutes[3].is_none());
        let minute = minutes[2].expect("seen");
        assert_eq!(minute.direct_connections, 2);
        assert_eq!((minute.failed, minute.connections, minute.latency.iter().sum::<u32>()), (6, 3, 60));
        assert!((minute.cpu_cores() - 0.5).abs() < 1e-9, "{}", minute.cpu_cores());
        assert_eq!(rings.samples(1, 100, 101).iter().flatten().count(), 2);
    }

    #[test]
    fn percentiles_lie_within_their_bucket() {
        let (rings, counts) = (ProcessRings::default(), RequestCounts::default());
        for _ in 0..98 {
            counts.note(Duration::from_micros(80), false);
        }
        counts.note(Duration::from_millis(40), false);
        counts.note(Duration::from_secs(100), true);
        rings.note(Duration::from_secs(5), &counts, gauges(0));
        let sample = rings.samples(1, 5, 5)[0].expect("seen");
        let [half, most, all] = [0.5, 0.99, 1.0].map(|share| sample.latency_ms(share).expect("requests"));
        assert!((0.05..=0.1).contains(&half), "{half}");
        assert!((25.0..=50.0).contains(&most), "{most}");
        assert_eq!(all, 10_000.0);
        assert_eq!(ProcessSample::default().latency_ms(0.5), None);
    }

    #[test]
    fn rings_have_a_bound() {
        let (rings, counts) = (ProcessRings::default(), RequestCounts::default());
        for second in 0..2000 {
            rings.note(Duration::from_secs(second), &counts, gauges(0));
        }
        let kept = rings.0.lock().expect("not poisoned");
        assert_eq!(kept.rings.each_ref().map(VecDeque::len), [600, 34, 4, 1]);
    }
}
