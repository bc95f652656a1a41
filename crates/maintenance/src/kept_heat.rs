//! Heat over restarts: the heat that maps show is handed out for storage, and read back at the next start.
//!
//! Serving does not need it: heat that is lost or not stored only leaves a gap in a picture.

use std::time::Duration;

use shardlake_heat::{PERIODS, Period};
use shardlake_router::{
    ContainerEntry, Earlier, EarlierEpoch, EarlierEvent, EarlierPartition, EarlierPeriod, EarlierRange,
};
use shardlake_routing::KeyRange;

use crate::Upkeep;

/// One point in time on both clocks.
#[derive(Debug, Clone, Copy)]
struct Now {
    unix_ms: u64,
    elapsed: Duration,
}

impl Now {
    fn unix_ms_of(self, moment: Duration) -> u64 {
        self.unix_ms.saturating_sub(self.elapsed.saturating_sub(moment).as_millis() as u64)
    }
}

impl Upkeep {
    /// Passes the heat of every container that has any, with its resource id, to `keep`, until `keep` returns false.
    pub fn keep_heat(&self, mut keep: impl FnMut(&str, &Earlier) -> bool) {
        let now = self.moment();
        for entry in self.0.router.catalog().load().containers() {
            let earlier = of_container(entry, now);
            if !earlier.partitions.is_empty() && !keep(entry.rid_text(), &earlier) {
                return;
            }
        }
    }

    /// Takes over the heat that an earlier process stored for a container; returns whether the container exists.
    pub fn recall_heat(&self, rid: &str, mut earlier: Earlier) -> bool {
        let catalog = self.0.router.catalog().load();
        let Some(entry) = catalog.containers().find(|entry| entry.rid_text() == rid) else { return false };
        earlier.hold(self.moment().unix_ms);
        entry.history.past().earlier = earlier;
        true
    }

    fn moment(&self) -> Now {
        Now { unix_ms: self.0.router.clock().now().milliseconds(), elapsed: self.0.router.clock().elapsed() }
    }
}

fn of_container(entry: &ContainerEntry, now: Now) -> Earlier {
    let definition = &entry.record.container.definition.partition_key;
    let past = entry.history.past();
    let mut kept = past.earlier.clone();
    if let Some(known_since) = past.known_since {
        kept.known.push((now.unix_ms_of(known_since), now.unix_ms));
    }
    kept.epochs.extend(past.epochs.iter().map(|epoch| {
        let range = |range: &shardlake_router::EpochRange| {
            let (min, max) = range.range.to_hex();
            EarlierRange { range_id: range.range_id, min, max, budget_centi: range.budget_centi }
        };
        let ranges = epoch.ranges.iter().map(range).collect();
        EarlierEpoch { from: now.unix_ms_of(epoch.from), ranges }
    }));
    let event = |event: &shardlake_router::HistoryEvent| EarlierEvent {
        at: now.unix_ms_of(event.at),
        what: event.what.clone(),
    };
    kept.events.extend(past.events.iter().map(event));
    for gone in &past.partitions {
        let bounds = gone.heat.part_bounds();
        let range = KeyRange { min: bounds[0].clone(), max: bounds[bounds.len() - 1].clone() };
        let periods = |seconds| gone.heat.periods(now.elapsed, seconds, 0);
        kept.add(partition(gone.range_id, &range, now, periods));
    }
    drop(past);
    for served in entry.map.iter() {
        let heat = served.hosted().partition().heat(definition);
        let periods = |seconds| heat.periods(now.elapsed, seconds, 0);
        kept.add(partition(served.range_id(), served.epk_range(), now, periods));
    }
    kept.hold(now.unix_ms);
    kept
}

fn partition(
    range_id: u32,
    range: &KeyRange,
    now: Now,
    periods: impl Fn(u32) -> Vec<Period>,
) -> EarlierPartition {
    let (min, max) = range.to_hex();
    let kept = |period: &Period, seconds: u32| {
        let start = Duration::from_secs(u64::from(period.number) * u64::from(seconds));
        let parts = (0_u8..).zip(&period.parts).filter(|(_, ru)| **ru > 0.0);
        EarlierPeriod(
            now.unix_ms_of(start) / 1000,
            period.total_operations(),
            period.throttled,
            parts.map(|(part, ru)| (part, *ru as f32)).collect(),
        )
    };
    let periods = PERIODS
        .map(|(seconds, _)| periods(seconds).iter().map(|period| kept(period, seconds)).collect::<Vec<_>>());
    EarlierPartition { range_id, min, max, periods }
}
