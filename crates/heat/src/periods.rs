//! Heat period by period, for charts: of a running partition, or of an ended one.
//!
//! [`PastHeat`] is the part that a map needs of a replaced partition: its rings, without keys and templates.
//! It drops its finest ring first when memory is short, since a map of seconds reaches only ten minutes back.

use std::time::Duration;

use shardlake_routing::{EpkScale, KeyRange};

use super::ring::{RINGS, Rings};
use super::row::{BUCKETS, Counts};
use super::{Heat, HeatKind, second_of};

/// Parts of a partition that are counted separately.
pub const PARTS: usize = BUCKETS;

/// The lengths of periods in seconds, and how many of each there are.
pub const PERIODS: [(u32, u32); 4] = RINGS;

/// One period with operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Period {
    /// Since the clock's start, in periods.
    pub number: u32,
    /// By [`HeatKind`].
    pub ru: [f64; HeatKind::ALL.len()],
    pub operations: [u32; HeatKind::ALL.len()],
    pub throttled: u32,
    pub busiest_second_ru: f64,
    /// Request units by part of the partition, lowest first.
    pub parts: [f64; PARTS],
}

/// The heat of an ended partition.
#[derive(Debug, Clone)]
pub struct PastHeat {
    range: KeyRange,
    scale: EpkScale,
    rings: Rings,
}

impl Heat {
    /// The periods of a length from a number on, oldest first; those without traffic are absent.
    pub fn periods(&self, now: Duration, period_seconds: u32, from: u32) -> Vec<Period> {
        periods(&self.rings, second_of(now).max(self.second), period_seconds, from)
    }

    /// Where each part begins, and where the last one ends.
    pub fn part_bounds(&self) -> Vec<shardlake_routing::Epk> {
        part_bounds(&self.range, &self.scale)
    }

    /// For the time after the partition.
    pub fn past(&self) -> PastHeat {
        PastHeat { range: self.range.clone(), scale: self.scale.clone(), rings: self.rings.clone() }
    }
}

impl PastHeat {
    pub fn periods(&self, now: Duration, period_seconds: u32, from: u32) -> Vec<Period> {
        periods(&self.rings, second_of(now), period_seconds, from)
    }

    pub fn part_bounds(&self) -> Vec<shardlake_routing::Epk> {
        part_bounds(&self.range, &self.scale)
    }

    /// Memory size.
    pub fn size_bytes(&self) -> usize {
        self.rings.heap_bytes()
    }

    /// Resolution of its finest periods: the place of their length in [`PERIODS`]; `None` if it has no periods left.
    pub fn finest(&self) -> Option<usize> {
        self.rings.finest()
    }

    /// Drops the finest periods that it still has; false if nothing is left.
    pub fn shed(&mut self) -> bool {
        self.rings.shed()
    }
}

fn periods(rings: &Rings, now: u32, period_seconds: u32, from: u32) -> Vec<Period> {
    let views = rings.view(now);
    let Some(view) = views.iter().find(|view| view.period_seconds == period_seconds) else { return vec![] };
    let start = from.saturating_mul(period_seconds);
    view.since(start).map(|(number, counts, buckets)| Period::of(number, counts, buckets)).collect()
}

/// Where each of the parts of a range begins, and where the last one ends.
pub fn part_bounds(range: &KeyRange, scale: &EpkScale) -> Vec<shardlake_routing::Epk> {
    let inner = (1..PARTS).map(|part| scale.bound(part as f64 / PARTS as f64));
    let bounds: Vec<_> = std::iter::once(range.min.clone()).chain(inner).chain([range.max.clone()]).collect();
    debug_assert!(bounds.is_sorted(), "the parts of a range ascend");
    bounds
}

impl Period {
    fn of(number: u32, counts: &Counts, buckets_centi: [u64; BUCKETS]) -> Period {
        let ru = |centi: u64| centi as f64 / 100.0;
        Period {
            number,
            ru: counts.ru_centi.map(ru),
            operations: counts.operations,
            throttled: counts.throttled,
            busiest_second_ru: ru(counts.busiest_second_centi),
            parts: buckets_centi.map(ru),
        }
    }

    pub fn total_ru(&self) -> f64 {
        self.ru.iter().sum()
    }

    pub fn total_operations(&self) -> u64 {
        self.operations.iter().map(|part| u64::from(*part)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardlake_model::{KeyComponent, PartitionKey, PartitionKeyDefinition};
    use shardlake_routing::{LogicalKey, effective_partition_key};

    use super::*;
    use crate::{HeatPlace, Sample};

    fn heat() -> (Heat, LogicalKey) {
        let definition = PartitionKeyDefinition::hash("/pk");
        let partition_key = PartitionKey::single(KeyComponent::String("a".into()));
        let epk = effective_partition_key(&definition, &partition_key);
        (Heat::new(&definition, &KeyRange::full()), LogicalKey { epk, partition_key })
    }

    fn read(heat: &mut Heat, key: &LogicalKey, second: u64) {
        let sample = Sample {
            kind: HeatKind::Read,
            place: HeatPlace::Key(key),
            ru_centi: 150,
            size_bytes: 10,
            latency: Duration::from_micros(3),
            template: None::<&Arc<str>>,
        };
        heat.record(Duration::from_secs(second), &sample);
    }

    #[test]
    fn periods_are_told_from_a_number_on_and_by_parts() {
        let (mut heat, key) = heat();
        for second in [10, 10, 70, 130] {
            read(&mut heat, &key, second);
        }
        let now = Duration::from_secs(131);
        let seconds: Vec<(u32, f64)> =
            heat.periods(now, 1, 0).iter().map(|period| (period.number, period.total_ru())).collect();
        assert_eq!(seconds, [(10, 3.0), (70, 1.5), (130, 1.5)]);
        let minutes = heat.periods(now, 60, 1);
        assert_eq!(minutes.iter().map(|period| period.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(minutes[0].parts.iter().sum::<f64>(), 1.5);
        assert_eq!(minutes[0].operations[HeatKind::Read as usize], 1);
        assert_eq!(heat.part_bounds().len(), PARTS + 1);
        assert!(heat.part_bounds().is_sorted());
    }

    #[test]
    fn the_past_keeps_what_was_and_gives_up_the_finest_first() {
        let (mut heat, key) = heat();
        for second in 0..600 {
            read(&mut heat, &key, second);
        }
        let now = Duration::from_secs(600);
        let mut past = heat.past();
        assert_eq!(past.periods(now, 60, 0), heat.periods(now, 60, 0));
        let whole = past.size_bytes();
        assert!(past.shed() && past.size_bytes() < whole / 2);
        assert!(past.periods(now, 1, 0).len() <= 1, "but for the second that was open");
        assert_eq!(past.periods(now, 60, 0), heat.periods(now, 60, 0), "minutes stay");
        while past.shed() {}
        assert_eq!(past.size_bytes(), 0);
    }
}
