//! Heat report for a reader: a copy of the heat of one partition at one point in time, in request
//! units and milliseconds.
//!
//! Totals, kinds, buckets and shares are of whole seconds up to the second that is still counted,
//! from the finest ring that reaches as far back as the requested window. They begin where a period
//! of that ring begins, so that a window of more than ten minutes is longer than requested by less
//! than one period; `window_seconds` is the length that rates are divided by:
//!
//! ```text
//! window=3s    |  97  |  98  |  99  | 100…     now = 100.4 s: seconds 97 to 99
//! window=11m   |  minute 88  | … |  minute 99  | 100.0 … 100.4 min, to the second
//! ```
//!
//! `series` are the rings unchanged. `recent` (keys, templates, distinct keys, the load median) is
//! of the last 5 to 10 minutes, for every window.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use shardlake_document::partition_key_text;
use shardlake_routing::LogicalKey;

use super::hitters::{Hitter, Hitters, generation_of};
use super::leaders::Leader;
use super::median::load_median;
use super::ring::RingView;
use super::row::{BUCKETS, Counts};
use super::{GENERATION_SECONDS, Heat, HeatKind, distinct, second_of};

const KEYS_MAX: usize = 16;
const TEMPLATES_MAX: usize = 16;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeatReport {
    /// Length of the time that everything here but `series` and `recent` is of; no longer than the longest ring, or than the
    /// clock has run.
    pub window_seconds: u32,
    /// Seconds of the window from the first period with traffic on.
    pub busy_seconds: u32,
    pub totals: Totals,
    /// Every [`HeatKind`], also those without traffic.
    pub kinds: Vec<KindLoad>,
    /// Parts of the range, lowest first, of equal width in hashes.
    pub buckets: Vec<RangeLoad>,
    /// By ring, finest first.
    pub series: Vec<Series>,
    pub recent: RecentLoad,
}

/// See the head of the module.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentLoad {
    /// Length of the window of everything here.
    pub window_seconds: u32,
    pub ru: f64,
    /// Heaviest first.
    pub keys: Vec<HotKey>,
    pub templates: Vec<HotTemplate>,
    pub keys_touched: Estimate,
    /// Keys in which an item was created.
    pub keys_created: Estimate,
    pub leaders: Vec<MinuteLeader>,
    /// How many of the last leaders ascend.
    pub leaders_ascending: usize,
    pub load_median: Option<LoadMedian>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub ru: f64,
    pub operations: u64,
    /// Operations refused for want of request units; they are not among the operations.
    pub throttled: u64,
    pub throttled_share: f64,
    pub bytes: u64,
    pub latency_mean_ms: f64,
    pub latency_max_ms: f64,
    /// The most request units in one second.
    pub busiest_second_ru: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindLoad {
    pub kind: &'static str,
    pub operations: u64,
    pub ru: f64,
    /// Share of the request units of all kinds.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RangeLoad {
    /// Hexadecimal; the bucket ends where the next begins.
    pub min: String,
    pub ru: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    pub period_seconds: u32,
    /// Oldest first; periods without traffic are absent.
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// How long ago the period began.
    pub seconds_ago: u32,
    #[serde(flatten)]
    pub totals: Totals,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HotKey {
    /// A JSON array, as in the partition key header.
    pub key: String,
    /// Its effective partition key, hexadecimal.
    pub epk: String,
    /// At most this, and at least `error_ru` less.
    pub ru: f64,
    pub error_ru: f64,
    /// Least share of the partition's request units.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HotTemplate {
    pub template: String,
    pub ru: f64,
    pub error_ru: f64,
    /// Least share of the request units of all queries.
    pub share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    pub count: u64,
    /// Standard error, relative.
    pub error: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MinuteLeader {
    /// How long ago the first minute began that the key led.
    pub seconds_ago: u32,
    pub key: String,
    /// Its least cost in that minute.
    pub ru: f64,
    /// Least share of the request units of that minute.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadMedian {
    /// Where to split: hexadecimal, inside the range, never within a logical key.
    pub epk: String,
    /// The share of the request units below the bound.
    pub share_below: f64,
}

impl HeatReport {
    /// The busiest second of the window as a share of the budget of a second; above 1 where burst or debt let it.
    pub fn normalised_ru(&self, budget_ru_per_second: f64) -> f64 {
        if budget_ru_per_second > 0.0 { self.totals.busiest_second_ru / budget_ru_per_second } else { 0.0 }
    }

    /// Cost of some kinds.
    pub fn ru_of(&self, kinds: &[HeatKind]) -> f64 {
        kinds.iter().map(|kind| self.kinds[*kind as usize].ru).sum()
    }

    /// The share that some kinds have of the request units.
    pub fn share_of(&self, kinds: &[HeatKind]) -> f64 {
        kinds.iter().map(|kind| self.kinds[*kind as usize].share).sum()
    }

    /// Share of writes in the request units.
    pub fn write_share(&self) -> f64 {
        self.share_of(&[HeatKind::Create, HeatKind::Write])
    }

    pub fn create_share(&self) -> f64 {
        self.share_of(&[HeatKind::Create])
    }

    /// Share of queries over ranges and of feeds in the request units.
    pub fn scan_share(&self) -> f64 {
        self.share_of(&[HeatKind::FanOut, HeatKind::Feed])
    }
}

impl Heat {
    /// Report of the last `window`.
    pub fn report(&self, now: Duration, window: Duration) -> HeatReport {
        let now = second_of(now).max(self.second);
        let whole = self.rings.whole(now);
        let Window { ring, start, seconds } = Window::of(&whole, now, window);
        let (counts, buckets) = sum(ring, start);
        let busy_from = ring.since(start).next().map(|(period, ..)| period * ring.period_seconds);
        let total_centi = counts.total_centi();
        let kinds = HeatKind::ALL.map(|kind| KindLoad {
            kind: kind.name(),
            operations: u64::from(counts.operations[kind as usize]),
            ru: ru(counts.ru_centi[kind as usize]),
            share: share(counts.ru_centi[kind as usize], total_centi),
        });
        let bound = |index: usize| match index {
            0 => self.range.min.to_hex(),
            index => self.scale.bound(index as f64 / BUCKETS as f64).to_hex(),
        };
        let bucket = |(index, centi): (usize, &u64)| RangeLoad { min: bound(index), ru: ru(*centi) };
        let rings = self.rings.view(now);
        HeatReport {
            window_seconds: seconds,
            busy_seconds: busy_from.map_or(0, |from| now - from.max(start)),
            totals: Totals::from(&counts),
            kinds: kinds.to_vec(),
            buckets: buckets.iter().enumerate().map(bucket).collect(),
            series: rings.iter().map(|ring| series(ring, now)).collect(),
            recent: self.recent(now, &rings[0]),
        }
    }

    /// The totals of a report alone, which cost much less.
    pub fn totals(&self, now: Duration, window: Duration) -> Totals {
        let now = second_of(now).max(self.second);
        let whole = self.rings.whole(now);
        let Window { ring, start, .. } = Window::of(&whole, now, window);
        Totals::from(&sum(ring, start).0)
    }

    /// Recent cost of a key, if it is among the counted ones, and the length of the counted time in seconds.
    pub fn key_heat(&self, now: Duration, key: &LogicalKey) -> Option<(HotKey, u32)> {
        let now = second_of(now).max(self.second);
        let generation = generation_of(now);
        let start = generation.saturating_sub(1) * GENERATION_SECONDS;
        let mut keys = self.keys.clone();
        keys.turn_to(generation);
        let hitter = keys.heaviest().into_iter().find(|hitter| hitter.label.epk == key.epk)?;
        let (counts, _) = sum(&self.rings.view(now)[0], start);
        Some((hot_key(&hitter, counts.total_centi()), now - start))
    }

    fn recent(&self, now: u32, seconds: &RingView<'_>) -> RecentLoad {
        let generation = generation_of(now);
        let start = generation.saturating_sub(1) * GENERATION_SECONDS;
        let turned = |hitters: &Hitters<_>| {
            let mut hitters = hitters.clone();
            hitters.turn_to(generation);
            hitters
        };
        let keys = turned(&self.keys);
        let mut templates = self.templates.clone();
        templates.turn_to(generation);
        let (mut touched, mut created) = (self.touched.clone(), self.created.clone());
        touched.turn_to(generation);
        created.turn_to(generation);
        let estimate = |count| Estimate { count, error: distinct::RELATIVE_ERROR };
        let (counts, buckets) = sum(seconds, start);
        let total_centi = counts.total_centi();
        let hottest = keys.heaviest();
        let weights: Vec<_> = hottest.iter().map(|hitter| (&hitter.label.epk, hitter.guaranteed())).collect();
        let median = load_median(&self.range, &self.scale, &buckets, &weights);
        let hot_key = |hitter: &Hitter<_>| hot_key(hitter, total_centi);
        let hot_template = |hitter: Hitter<Arc<str>>| HotTemplate {
            template: hitter.label.to_string(),
            ru: ru(hitter.weight),
            error_ru: ru(hitter.error),
            share: share(hitter.guaranteed(), templates.total()),
        };
        let leader = |leader: &Leader| MinuteLeader {
            seconds_ago: now.saturating_sub(leader.minute * 60),
            key: partition_key_text(&leader.key.partition_key),
            ru: ru(leader.weight),
            share: leader.share,
        };
        RecentLoad {
            window_seconds: now - start,
            ru: ru(total_centi),
            keys: hottest.iter().take(KEYS_MAX).map(hot_key).collect(),
            templates: templates.heaviest().into_iter().take(TEMPLATES_MAX).map(hot_template).collect(),
            keys_touched: estimate(touched.estimate()),
            keys_created: estimate(created.estimate()),
            leaders: self.leaders.iter().map(leader).collect(),
            leaders_ascending: self.leaders.ascending(),
            load_median: median.map(|(epk, share_below)| LoadMedian { epk: epk.to_hex(), share_below }),
        }
    }
}

/// The completed periods of a report.
struct Window<'r> {
    ring: &'r RingView<'r>,
    start: u32,
    seconds: u32,
}

impl<'r> Window<'r> {
    fn of(rings: &'r [RingView<'r>], now: u32, length: Duration) -> Window<'r> {
        let coarsest = &rings[rings.len() - 1];
        let length = second_of(length).min(coarsest.reach_seconds).min(now);
        let ring = rings.iter().find(|ring| ring.reach_seconds >= length).unwrap_or(coarsest);
        let start = (now - length) / ring.period_seconds * ring.period_seconds;
        Window { ring, start: start.max(ring.start()), seconds: now - start.max(ring.start()) }
    }
}

impl From<&Counts> for Totals {
    fn from(counts: &Counts) -> Totals {
        let operations = counts.total_operations();
        let throttled = u64::from(counts.throttled);
        Totals {
            ru: ru(counts.total_centi()),
            operations,
            throttled,
            throttled_share: share(throttled, operations + throttled),
            bytes: counts.size_bytes,
            latency_mean_ms: counts.latency_sum_us as f64 / operations.max(1) as f64 / 1e3,
            latency_max_ms: f64::from(counts.latency_max_us) / 1e3,
            busiest_second_ru: ru(counts.busiest_second_centi),
        }
    }
}

fn sum(ring: &RingView<'_>, start: u32) -> (Counts, [u64; BUCKETS]) {
    let mut sum = (Counts::default(), [0u64; BUCKETS]);
    for (_, counts, buckets) in ring.since(start) {
        sum.0.add(counts);
        sum.1.iter_mut().zip(buckets).for_each(|(sum, part)| *sum = sum.saturating_add(part));
    }
    sum
}

fn series(ring: &RingView<'_>, now: u32) -> Series {
    let point = |(period, counts, _): (u32, &Counts, _)| Point {
        seconds_ago: now.saturating_sub(period * ring.period_seconds),
        totals: Totals::from(counts),
    };
    Series { period_seconds: ring.period_seconds, points: ring.since(0).map(point).collect() }
}

fn hot_key(hitter: &Hitter<Arc<LogicalKey>>, total_centi: u64) -> HotKey {
    HotKey {
        key: partition_key_text(&hitter.label.partition_key),
        epk: hitter.label.epk.to_hex(),
        ru: ru(hitter.weight),
        error_ru: ru(hitter.error),
        share: share(hitter.guaranteed(), total_centi),
    }
}

fn ru(centi: u64) -> f64 {
    centi as f64 / 100.0
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
