//! The request units of all containers over time, from the heat of their partitions: for those who look at the whole account.
//!
//! Nothing is counted for it. Whoever asks for what is new reads a few periods of each partition.

use std::time::Duration;

use shardlake_heat::{HeatKind, Period};
use shardlake_serving::ContainerEntry;

use crate::Upkeep;

const KINDS: usize = HeatKind::ALL.len();

/// Periods from one number to another, those without traffic included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulseSpan {
    pub period_seconds: u32,
    pub first: u32,
    /// Still counted.
    pub last: u32,
}

impl PulseSpan {
    pub fn count(self) -> usize {
        (self.last - self.first) as usize + 1
    }
}

/// A container's course; every list has one number for each period.
#[derive(Debug, Clone)]
pub struct ContainerPulse {
    pub database: String,
    pub container: String,
    /// By [`HeatKind`].
    pub ru: [Vec<f64>; KINDS],
    pub operations: [Vec<u64>; KINDS],
    pub throttled: Vec<u64>,
    /// The busiest second of the busiest partition, as a share of that one's budget.
    pub normalized_ru: Vec<f64>,
}

impl ContainerPulse {
    fn of(entry: &ContainerEntry, span: PulseSpan) -> ContainerPulse {
        ContainerPulse {
            database: entry.database.id.clone(),
            container: entry.record.container.definition.id.clone(),
            ru: std::array::from_fn(|_| vec![0.0; span.count()]),
            operations: std::array::from_fn(|_| vec![0; span.count()]),
            throttled: vec![0; span.count()],
            normalized_ru: vec![0.0; span.count()],
        }
    }

    pub fn total_ru(&self) -> f64 {
        self.ru.iter().flatten().sum()
    }

    fn add(&mut self, span: PulseSpan, periods: &[Period], budget: Option<f64>) {
        for period in periods.iter().filter(|period| (span.first..=span.last).contains(&period.number)) {
            let at = (period.number - span.first) as usize;
            for kind in 0..KINDS {
                self.ru[kind][at] += period.ru[kind];
                self.operations[kind][at] += u64::from(period.operations[kind]);
            }
            self.throttled[at] += u64::from(period.throttled);
            if let Some(budget) = budget.filter(|budget| *budget > 0.0) {
                self.normalized_ru[at] = self.normalized_ru[at].max(period.busiest_second_ru / budget);
            }
        }
    }
}

impl Upkeep {
    /// Of every container that had traffic; in no order.
    pub fn pulse(&self, span: PulseSpan) -> Vec<ContainerPulse> {
        let now = self.0.clock.elapsed();
        let catalog = self.0.catalog.load();
        let all = catalog.containers().map(|entry| pulse_of(entry, span, now));
        all.filter(|pulse| pulse.total_ru() > 0.0 || pulse.throttled.iter().any(|count| *count > 0)).collect()
    }
}

fn pulse_of(entry: &ContainerEntry, span: PulseSpan, now: Duration) -> ContainerPulse {
    let definition = &entry.record.container.definition.partition_key;
    let mut pulse = ContainerPulse::of(entry, span);
    let budgets = entry.budget.report(now);
    for partition in entry.map.iter() {
        let periods = partition.heat(definition).periods(now, span.period_seconds, span.first);
        if periods.is_empty() {
            continue;
        }
        let own = budgets.iter().find(|(range_id, _)| *range_id == partition.range_id);
        pulse.add(span, &periods, own.map(|(_, report)| report.rate_centi as f64 / 100.0));
    }
    for gone in &entry.history.past().partitions {
        pulse.add(span, &gone.heat.periods(now, span.period_seconds, span.first), None);
    }
    pulse
}
