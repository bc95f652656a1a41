//! Latency of commands by collection, for `$collStats` with `latencyStats`: counted since the start of the server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use shardlake_mql::{Document, Value};

/// Maximum of collections with counts. New collections beyond it are not counted.
const COLLECTIONS_MAX: usize = 10_000;
/// Ranges of a histogram. Each is twice as wide as the one before, and above 2 ms there are half steps.
const RANGES: usize = 44;

/// Kind of a command in the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Other,
}

impl Kind {
    pub fn of(command: &str) -> Kind {
        match command {
            "find" | "count" | "distinct" | "aggregate" | "getMore" => Kind::Read,
            "insert" | "update" | "delete" | "findAndModify" => Kind::Write,
            _ => Kind::Other,
        }
    }
}

#[derive(Debug, Default)]
pub struct Latencies {
    by_database: RwLock<HashMap<String, HashMap<String, Arc<OfCollection>>>>,
    collections: AtomicU64,
}

#[derive(Debug, Default)]
struct OfCollection {
    reads: Counted,
    writes: Counted,
    commands: Counted,
}

#[derive(Debug)]
struct Counted {
    operations: AtomicU64,
    micros: AtomicU64,
    ranges: [AtomicU64; RANGES],
}

impl Default for Counted {
    fn default() -> Counted {
        Counted {
            operations: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            ranges: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// The lowest latency of a range, in microseconds.
fn lowest(range: usize) -> u64 {
    const HALF_STEPS_FROM: usize = 11;
    match range {
        0 => 0,
        range if range <= HALF_STEPS_FROM => 1 << range,
        range => {
            let steps = range - HALF_STEPS_FROM;
            let whole = 1 << (HALF_STEPS_FROM + steps / 2);
            if steps.is_multiple_of(2) { whole } else { whole + whole / 2 }
        }
    }
}

fn range_of(micros: u64) -> usize {
    debug_assert!(lowest(0) == 0 && lowest(1) > 0, "the ranges of latencies begin with zero");
    (1..RANGES).rev().find(|range| micros >= lowest(*range)).unwrap_or(0)
}

impl Counted {
    fn note(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.ranges[range_of(micros)].fetch_add(1, Ordering::Relaxed);
    }

    fn describe(&self, has_histogram: bool) -> Document {
        let long = |counter: &AtomicU64| Value::Long(counter.load(Ordering::Relaxed) as i64);
        let mut described = Document::one("latency", long(&self.micros));
        described.push("ops", long(&self.operations));
        described.push("queryableEncryptionLatencyMicros", Value::Long(0));
        if has_histogram {
            let ranges = self.ranges.iter().enumerate();
            let counted = ranges.filter(|(_, count)| count.load(Ordering::Relaxed) > 0);
            let shown = counted.map(|(range, count)| {
                let mut shown = Document::one("micros", Value::Long(lowest(range) as i64));
                shown.push("count", long(count));
                Value::document(shown)
            });
            described.push("histogram", Value::array(shown.collect()));
        }
        described
    }
}

impl Latencies {
    pub fn note(&self, kind: Kind, (database, collection): (&str, &str), took: Duration) {
        let Some(counted) = self.of(database, collection).or_else(|| self.add(database, collection)) else {
            return;
        };
        match kind {
            Kind::Read => counted.reads.note(took),
            Kind::Write => counted.writes.note(took),
            Kind::Other => counted.commands.note(took),
        }
    }

    fn of(&self, database: &str, collection: &str) -> Option<Arc<OfCollection>> {
        let known = self.by_database.read().unwrap_or_else(PoisonError::into_inner);
        known.get(database)?.get(collection).cloned()
    }

    fn add(&self, database: &str, collection: &str) -> Option<Arc<OfCollection>> {
        if self.collections.load(Ordering::Relaxed) >= COLLECTIONS_MAX as u64 {
            return None;
        }
        let mut known = self.by_database.write().unwrap_or_else(PoisonError::into_inner);
        let of_database = known.entry(database.to_owned()).or_default();
        if !of_database.contains_key(collection) {
            self.collections.fetch_add(1, Ordering::Relaxed);
        }
        Some(of_database.entry(collection.to_owned()).or_default().clone())
    }

    /// Latencies in the reference's form. Statements of transactions have no counts of their own.
    pub fn describe(&self, (database, collection): (&str, &str), has_histograms: bool) -> Document {
        let counted = self.of(database, collection).unwrap_or_default();
        let mut described = Document::new();
        for (name, counted) in
            [("reads", &counted.reads), ("writes", &counted.writes), ("commands", &counted.commands)]
        {
            described.push(name, Value::document(counted.describe(has_histograms)));
        }
        described.push("transactions", Value::document(Counted::default().describe(has_histograms)));
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_and_every_latency_is_in_one() {
        let bounds: Vec<u64> = (0..RANGES).map(lowest).collect();
        assert_eq!(bounds[..5], [0, 2, 4, 8, 16]);
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        assert!(bounds.contains(&2048) && bounds.contains(&3072) && bounds.contains(&4096));
        for micros in [0, 1, 2, 3, 2047, 2048, 3071, 3072, 1 << 20, u64::MAX] {
            let range = range_of(micros);
            assert!(lowest(range) <= micros);
            assert!(range + 1 == RANGES || micros < lowest(range + 1));
        }
    }
}
