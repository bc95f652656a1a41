//! Heat of a partition: the clients, keys and operations that keep it busy, how much and since when.
//!
//! | file | contents |
//! |---|---|
//! | `ring.rs`, `row.rs` | request units, operations, throttles, bytes and latency over time: 1 s × 10 min, 1 min × 6 h, 10 min × 4 days, 1 h × 28 days |
//! | `hitters.rs` | the heaviest logical keys and query templates of the last 5 to 10 minutes, with bounds |
//! | `distinct.rs` | how many different keys were touched, and created in, over the same window |
//! | `leaders.rs` | which key led each minute, to recognise ascending keys |
//! | `median.rs` | the bound that halves the load |
//! | `periods.rs` | [`Period`]s for charts, also of ended partitions |
//! | `report.rs` | [`HeatReport`], a reader's copy |
//!
//! [`Heat::record`] counts one operation, or one page, at its settlement; [`Heat::throttle`] one
//! refusal. Everything is a function of the given times and operations: no clock, and no allocation
//! except for new periods and labels of keys. Time is that of a monotonic clock; should it go back
//! nevertheless, records count as of the latest time seen.
//!
//! A fully loaded partition uses at most [`HEAT_BYTES_MAX`]; one without traffic a few hundred
//! bytes. Nothing is stored here: after a restart, a split or a move the count begins anew. The
//! owner of the partition keeps the earlier heat that maps show.
//!
//! Threads: the owner of a partition keeps one mutex around all of it, held for about 100 ns per
//! operation and never over an await.

mod distinct;
mod hitters;
mod leaders;
mod median;
mod periods;
mod report;
mod ring;
mod row;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::PartitionKeyDefinition;
use shardlake_routing::{EpkScale, KeyRange, LogicalKey};
use xxhash_rust::xxh3::xxh3_64;

use distinct::Distinct;
use hitters::{Hitters, generation_of};
use leaders::Leaders;
use ring::Rings;
use row::{BUCKETS, spread};

pub use periods::{PARTS, PERIODS, PastHeat, Period, part_bounds};
pub use report::{
    Estimate, HeatReport, HotKey, HotTemplate, KindLoad, LoadMedian, MinuteLeader, Point, RangeLoad,
    RecentLoad, Series, Totals,
};

/// Maximum size of one partition's heat, in bytes.
pub const HEAT_BYTES_MAX: usize = 1 << 20;
const LAST_BUCKET: usize = BUCKETS - 1;
/// Half of the window over which heavy and distinct keys are counted.
const GENERATION_SECONDS: u32 = 300;
/// Keys longer than any item may have are asked for only by mistake; they are not worth their memory.
const KEY_BYTES_MAX: usize = 2048 + 256;

/// Classes of operations that a diagnosis distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeatKind {
    /// A point read.
    Read,
    /// A write that created an item.
    Create,
    /// Any other write.
    Write,
    /// A page of a query, or of a feed, within one logical key.
    Query,
    /// A page of a query over a range of keys: one of several partitions asked, or a scan.
    FanOut,
    /// A page of all items of a range.
    Feed,
}

impl HeatKind {
    pub const ALL: [HeatKind; 6] = [
        HeatKind::Read,
        HeatKind::Create,
        HeatKind::Write,
        HeatKind::Query,
        HeatKind::FanOut,
        HeatKind::Feed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            HeatKind::Read => "read",
            HeatKind::Create => "create",
            HeatKind::Write => "write",
            HeatKind::Query => "query",
            HeatKind::FanOut => "fan-out",
            HeatKind::Feed => "feed",
        }
    }
}

/// Where in its partition an operation was.
#[derive(Debug, Clone, Copy)]
pub enum HeatPlace<'a> {
    Key(&'a LogicalKey),
    Span(&'a KeyRange),
}

/// One operation, or one page, after its settlement.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    pub kind: HeatKind,
    pub place: HeatPlace<'a>,
    pub ru_centi: u64,
    pub size_bytes: u64,
    /// From admission to settlement.
    pub latency: Duration,
    /// The query's text with its literals taken out.
    pub template: Option<&'a Arc<str>>,
}

/// See the head of the module.
#[derive(Debug, Clone)]
pub struct Heat {
    range: KeyRange,
    scale: EpkScale,
    rings: Rings,
    /// The latest seen.
    second: u32,
    keys: Hitters<Arc<LogicalKey>>,
    templates: Hitters<Arc<str>>,
    touched: Distinct,
    created: Distinct,
    leaders: Leaders,
}

impl Heat {
    pub fn new(definition: &PartitionKeyDefinition, range: &KeyRange) -> Heat {
        Heat {
            range: range.clone(),
            scale: EpkScale::new(definition, range),
            rings: Rings::default(),
            second: 0,
            keys: Hitters::default(),
            templates: Hitters::default(),
            touched: Distinct::default(),
            created: Distinct::default(),
            leaders: Leaders::default(),
        }
    }

    pub fn record(&mut self, now: Duration, sample: &Sample<'_>) {
        self.turn(now);
        let row = self.rings.at(self.second);
        let counts = &mut row.counts;
        let kind = sample.kind as usize;
        let latency_us = u32::try_from(sample.latency.as_micros()).unwrap_or(u32::MAX);
        counts.ru_centi[kind] = counts.ru_centi[kind].saturating_add(sample.ru_centi);
        counts.operations[kind] = counts.operations[kind].saturating_add(1);
        counts.size_bytes = counts.size_bytes.saturating_add(sample.size_bytes);
        counts.latency_sum_us = counts.latency_sum_us.saturating_add(latency_us.into());
        counts.latency_max_us = counts.latency_max_us.max(latency_us);
        match sample.place {
            HeatPlace::Key(logical) => {
                let bucket = &mut row.buckets_centi[bucket_of(self.scale.fraction(&logical.epk))];
                *bucket = bucket.saturating_add(sample.ru_centi);
                self.record_key(logical, sample);
            }
            // A read of a span counts for all its buckets alike.
            HeatPlace::Span(span) => match buckets_of(&self.scale, span) {
                (0, LAST_BUCKET) => row.even_centi = row.even_centi.saturating_add(sample.ru_centi),
                (first, last) => spread(&mut row.buckets_centi[first..=last], sample.ru_centi),
            },
        }
        if let Some(template) = sample.template {
            self.templates.record(xxh3_64(template.as_bytes()), sample.ru_centi, || template.clone());
        }
    }

    /// Counts an operation that was refused for want of request units.
    pub fn throttle(&mut self, now: Duration) {
        self.turn(now);
        let counts = &mut self.rings.at(self.second).counts;
        counts.throttled = counts.throttled.saturating_add(1);
    }

    fn record_key(&mut self, logical: &LogicalKey, sample: &Sample<'_>) {
        // Version 1 hashes keys by their first 100 characters: those that share them share a count, as they share a place.
        let hash = xxh3_64(&logical.epk.0);
        self.touched.record(hash);
        if sample.kind == HeatKind::Create {
            self.created.record(hash);
        }
        if leaders::size_bytes(&logical.partition_key) <= KEY_BYTES_MAX {
            self.keys.record(hash, sample.ru_centi, || Arc::new(logical.clone()));
        }
    }

    /// Closes the periods that have ended.
    fn turn(&mut self, now: Duration) {
        let second = second_of(now).max(self.second);
        if second / 60 > self.second / 60 {
            self.leaders.note(self.second / 60, self.keys.take_leader());
            let generation = generation_of(second);
            self.keys.turn_to(generation);
            self.templates.turn_to(generation);
            self.touched.turn_to(generation);
            self.created.turn_to(generation);
        }
        self.second = second;
    }
}

/// 32 bits of seconds are 136 years: later times are a mistake, and count as the end.
fn second_of(now: Duration) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

fn bucket_of(fraction: f64) -> usize {
    ((fraction * BUCKETS as f64) as usize).min(LAST_BUCKET)
}

/// The first and last that a span reaches into.
fn buckets_of(scale: &EpkScale, span: &KeyRange) -> (usize, usize) {
    let first = bucket_of(scale.fraction(&span.min));
    let end = if span.is_unbounded_above() { 1.0 } else { scale.fraction(&span.max) };
    // A span that ends where a bucket begins does not reach into it.
    (first, ((end * BUCKETS as f64).ceil() as usize).saturating_sub(1).clamp(first, LAST_BUCKET))
}
