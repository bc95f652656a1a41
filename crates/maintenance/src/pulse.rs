//! The request units of all containers over time, from the heat of their partitions: for monitoring the whole account.
//!
//! Nothing is counted for it. A request for new periods reads a few periods of each partition.

use std::time::Duration;

use shardlake_heat::{HeatKind, Period};
use shardlake_router::ContainerEntry;

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

    /// The place of a period, if it is one of these.
    fn place(self, number: u32) -> Option<usize> {
        (self.first..=self.last).contains(&number).then(|| (number - self.first) as usize)
    }
}

/// Pulse of all containers together; every list has one number for each period.
#[derive(Debug, Clone)]
pub struct AccountPulse {
    /// By [`HeatKind`].
    pub ru: [Vec<f64>; KINDS],
    pub operations: [Vec<u64>; KINDS],
    pub throttled: Vec<u64>,
    /// The busiest first; those without traffic are absent.
    pub containers: Vec<ContainerPulse>,
}

/// A container's course.
#[derive(Debug, Clone)]
pub struct ContainerPulse {
    pub database: String,
    pub container: String,
    pub ru: Vec<f64>,
    pub throttled: Vec<u64>,
    /// The busiest second of the busiest partition, as a share of that one's budget.
    pub normalized_ru: Vec<f64>,
}

impl Upkeep {
    /// With the given number of the busiest containers one by one.
    pub fn pulse(&self, span: PulseSpan, containers_max: usize) -> AccountPulse {
        let now = self.0.router.clock().elapsed();
        let mut pulse = AccountPulse {
            ru: std::array::from_fn(|_| vec![0.0; span.count()]),
            operations: std::array::from_fn(|_| vec![0; span.count()]),
            throttled: vec![0; span.count()],
            containers: Vec::new(),
        };
        let mut busiest: Vec<(f64, ContainerPulse)> = Vec::with_capacity(containers_max + 1);
        for entry in self.0.router.catalog().load().containers() {
            let Some(one) = pulse.add(entry, span, now) else { continue };
            let ru = one.ru.iter().sum::<f64>();
            let place = busiest.partition_point(|(other, _)| *other > ru);
            busiest.insert(place, (ru, one));
            busiest.truncate(containers_max);
        }
        pulse.containers = busiest.into_iter().map(|(_, one)| one).collect();
        pulse
    }
}

impl AccountPulse {
    /// Adds a container, and returns its own series where it had any traffic.
    fn add(&mut self, entry: &ContainerEntry, span: PulseSpan, now: Duration) -> Option<ContainerPulse> {
        let definition = &entry.record.container.definition.partition_key;
        let mut own: Option<ContainerPulse> = None;
        for partition in entry.map.iter() {
            let periods =
                partition.hosted().partition().heat(definition).periods(now, span.period_seconds, span.first);
            if !periods.is_empty() {
                let budgets = entry.budget.report(now);
                let budget = budgets.iter().find(|(range_id, _)| *range_id == partition.range_id());
                let rate = budget.map(|(_, report)| report.rate_centi as f64 / 100.0);
                let own = own.get_or_insert_with(|| ContainerPulse::of(entry, span));
                self.add_periods(own, span, &periods, rate);
            }
        }
        for gone in &entry.history.past().partitions {
            let periods = gone.heat.periods(now, span.period_seconds, span.first);
            if !periods.is_empty() {
                let own = own.get_or_insert_with(|| ContainerPulse::of(entry, span));
                self.add_periods(own, span, &periods, None);
            }
        }
        own
    }

    fn add_periods(
        &mut self,
        own: &mut ContainerPulse,
        span: PulseSpan,
        periods: &[Period],
        budget: Option<f64>,
    ) {
        for period in periods {
            let Some(at) = span.place(period.number) else { continue };
            for kind in 0..KINDS {
                self.ru[kind][at] += period.ru[kind];
                self.operations[kind][at] += u64::from(period.operations[kind]);
            }
            own.ru[at] += period.total_ru();
            self.throttled[at] += u64::from(period.throttled);
            own.throttled[at] += u64::from(period.throttled);
            if let Some(budget) = budget.filter(|budget| *budget > 0.0) {
                own.normalized_ru[at] = own.normalized_ru[at].max(period.busiest_second_ru / budget);
            }
        }
    }
}

impl ContainerPulse {
    fn of(entry: &ContainerEntry, span: PulseSpan) -> ContainerPulse {
        ContainerPulse {
            database: entry.database.id.clone(),
            container: entry.record.container.definition.id.clone(),
            ru: vec![0.0; span.count()],
            throttled: vec![0; span.count()],
            normalized_ru: vec![0.0; span.count()],
        }
    }
}
