//! Heat of earlier processes, at its place on a map.
//!
//! Their periods do not begin at the period bounds of this process, so each period is drawn in the column of
//! its middle: up to half a period from its true place.

use std::time::Duration;

use shardlake_heat::{HeatKind, PARTS, PERIODS, Period, part_bounds};
use shardlake_model::PartitionKeyDefinition;
use shardlake_router::{Earlier, EarlierPartition, EarlierPeriod, Epoch, EpochRange, HistoryEvent};
use shardlake_routing::{Epk, EpkScale, KeyRange};
use shardlake_stdx::Timestamp;

/// The periods that a map shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownPeriods {
    pub period_seconds: u32,
    pub first: u32,
    pub last: u32,
}

pub(crate) struct EarlierHeat {
    /// The present on the map's clock, and as Unix time.
    now: Duration,
    unix_ms: u64,
    /// Times of the map, oldest first.
    pub known: Vec<(Duration, Duration)>,
    pub epochs: Vec<Epoch>,
    pub events: Vec<HistoryEvent>,
}

impl EarlierHeat {
    pub fn new(earlier: &Earlier, today: Timestamp, now: Duration) -> EarlierHeat {
        let mut heat = EarlierHeat {
            now,
            unix_ms: today.milliseconds(),
            known: Vec::new(),
            epochs: Vec::new(),
            events: Vec::new(),
        };
        heat.known = earlier.known.iter().map(|(from, to)| (heat.time(*from), heat.time(*to))).collect();
        let epoch = |epoch: &shardlake_router::EarlierEpoch| {
            let ranges = epoch.ranges.iter().filter_map(|range| {
                let place = KeyRange::from_hex(&range.min, &range.max).ok()?;
                Some(EpochRange { range_id: range.range_id, range: place, budget_centi: range.budget_centi })
            });
            Epoch { from: heat.time(epoch.from), ranges: ranges.collect() }
        };
        heat.epochs = earlier.epochs.iter().map(epoch).collect();
        let event = |event: &shardlake_router::EarlierEvent| HistoryEvent {
            at: heat.time(event.at),
            what: event.what.clone(),
        };
        heat.events = earlier.events.iter().map(event).collect();
        heat
    }

    /// The time on the map; times before its beginning are moved to the beginning.
    fn time(&self, unix_ms: u64) -> Duration {
        self.now.saturating_sub(Duration::from_millis(self.unix_ms.saturating_sub(unix_ms)))
    }

    /// The positions of a partition's parts, and its shown periods.
    pub fn of_partition(
        &self,
        partition: &EarlierPartition,
        definition: &PartitionKeyDefinition,
        columns: &ShownPeriods,
    ) -> Option<(Vec<Epk>, Vec<Period>)> {
        let range = partition.range()?;
        let place = PERIODS.iter().position(|(seconds, _)| *seconds == columns.period_seconds)?;
        let shown = partition.periods[place].iter().map(|period| self.placed(period, columns));
        let shown: Vec<Period> =
            shown.filter(|period| (columns.first..=columns.last).contains(&period.number)).collect();
        let scale = EpkScale::new(definition, &range);
        Some((part_bounds(&range, &scale), shown))
    }

    fn placed(
        &self,
        EarlierPeriod(start, operations, throttled, parts): &EarlierPeriod,
        columns: &ShownPeriods,
    ) -> Period {
        let middle = self.time(start * 1000) + Duration::from_secs(u64::from(columns.period_seconds)) / 2;
        let mut period = Period {
            number: (middle.as_secs() / u64::from(columns.period_seconds)) as u32,
            ru: [0.0; HeatKind::ALL.len()],
            operations: [0; HeatKind::ALL.len()],
            throttled: *throttled,
            busiest_second_ru: 0.0,
            parts: [0.0; PARTS],
        };
        period.operations[0] = u32::try_from(*operations).unwrap_or(u32::MAX);
        for (part, ru) in parts {
            period.parts[usize::from(*part)] = f64::from(*ru);
        }
        period
    }
}
