//! Diagnosis of busy or full partitions: findings with evidence, a remedy and a description.
//!
//! Everything is judged from the loads of all partitions over one window, and from their sizes:
//! pure rules, each with its thresholds named here. A finding informs the operator even if the
//! server can do nothing about it; where there is no problem, one finding reports that.
//!
//! | finding | condition |
//! |---|---|
//! | single hot key | a pressed partition, of whose request units one logical key has half or more: splitting does not help |
//! | sequential keys | the leading key changes and every next one is above the last: a date or a counter as key |
//! | hot range | a pressed partition with much more than its fair share, of many keys: a split at the load median helps |
//! | scans | half of the spent request units is for queries over ranges of keys |
//! | throughput too low | pressed all over, evenly |
//! | storage skew | a partition holds much more than the others, or one logical key nears its limit |
//!
//! *Pressed* is a partition that refused more than [`THROTTLED_SHARE`], or spent more than
//! [`BUSY_SHARE`] of its budget over the window. Without a budget, a partition is pressed if it
//! spends more than [`UNLIMITED_BUSY_SHARE`] of a partition's maximum.

mod actions;
mod course;
mod evidence;
mod rules;
mod statements;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use actions::{Action, Predicted};
pub use course::{CURED_SECONDS, RECENT_SECONDS, SecondLoad, Spell};
pub use evidence::{Evidence, EvidenceValue};
pub use statements::CollectionName;

use statements::statements_of;

/// The service calls up to 5 % of refused requests a sign of throughput well used.
pub const THROTTLED_SHARE: f64 = 0.05;
/// Share of a budget, on average over the window: above it there is no headroom for peaks.
pub const BUSY_SHARE: f64 = 0.8;
/// Share of the maximum of any partition, where no budget defines when one is busy.
pub const UNLIMITED_BUSY_SHARE: f64 = 0.1;
/// With fewer operations, refused ones included, a window is not judged.
pub const OPERATIONS_MIN: u64 = 100;
/// A key with half of a partition's load stays alone on its side of any split, as busy as before.
pub const SINGLE_KEY_SHARE: f64 = 0.5;
/// Times its fair share that a partition spends before it is hot: hashing alone makes differences of a few percent, or
/// of some tens with few keys.
pub const HOT_FACTOR: f64 = 1.5;
/// Below half, other traffic is the first thing to look at.
pub const SCAN_SHARE: f64 = 0.5;
/// Leaders that ascend one after the other. Five at random do so once in 120 times, four once in 24.
pub const ASCENDING_LEADERS: usize = 5;
/// A leader with less than this part of the strongest leader's load led a partition with little load.
pub const LEADER_STRENGTH: f64 = 0.5;
/// Times the mean of the others' size.
pub const SIZE_FACTOR: f64 = 2.0;
/// Share of the limit of a partition: smaller partitions may be as uneven as they like.
pub const SIZE_FLOOR: f64 = 0.1;
/// Share of the limit of a logical partition: the service warns from here on.
pub const LOGICAL_SIZE_SHARE: f64 = 0.8;

/// View of a container for the rules.
#[derive(Debug, Clone, Default)]
pub struct ContainerLoad {
    /// In the order of the hash space.
    pub partitions: Vec<PartitionLoad>,
    /// RU/s that the container may spend; `None` where nothing limits it.
    pub throughput: Option<f64>,
    /// Limit of one partition, in RU/s and bytes.
    pub partition_throughput_max: f64,
    pub partition_size_bytes_max: u64,
    pub logical_size_bytes_max: u64,
    /// Where it was made over MongoDB's protocol.
    pub collection: Option<CollectionName>,
}

#[derive(Debug, Clone, Default)]
pub struct PartitionLoad {
    pub range_id: u32,
    /// RU/s; `None` where nothing limits it.
    pub budget: Option<f64>,
    /// Length of the figures below: shorter for a partition that was created within the window.
    pub window_seconds: f64,
    /// From the first operation in the window to its end.
    pub busy_seconds: f64,
    /// The most request units in one second.
    pub busiest_second_ru: f64,
    /// The last seconds that are over, oldest first; those without traffic are absent.
    pub seconds: Vec<SecondLoad>,
    pub ru: f64,
    pub operations: u64,
    pub throttled: u64,
    /// Part of the request units: queries over ranges of keys, and feeds.
    pub scan_ru: f64,
    pub write_ru: f64,
    /// The heaviest query templates, with their share of the cost of queries.
    pub templates: Vec<(String, f64)>,
    /// The heaviest first; shares are of the partition's request units, at least.
    pub keys: Vec<KeyLoad>,
    pub keys_touched: u64,
    /// Oldest first.
    pub leaders: Vec<Leader>,
    /// The bound that halves the load, and the share below it.
    pub load_median: Option<(String, f64)>,
    pub size_bytes: u64,
    /// The largest logical partition and its bytes, if known.
    pub largest_key: Option<(String, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct KeyLoad {
    /// A JSON array.
    pub key: String,
    pub share: f64,
}

/// A key that led a minute of its partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Leader {
    pub key: String,
    pub seconds_ago: u64,
    pub ru: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingKind {
    SingleHotKey,
    SequentialKeys,
    HotRange,
    Scans,
    ThroughputTooLow,
    StorageSkew,
    NothingWrong,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub kind: FindingKind,
    /// `None`: of the container as a whole.
    pub range_id: Option<u32>,
    /// Its time, where it is about load.
    #[serde(skip)]
    pub spell: Spell,
    /// The finding in one sentence.
    pub summary: String,
    pub evidence: Vec<Evidence>,
    /// Description of a remedy.
    pub remedy: String,
    /// Actions that an operator can order, the best first.
    pub actions: Vec<Action>,
}

/// The worst first; never empty. A finding that has ended is among them for a while, without actions.
pub fn diagnose(container: &ContainerLoad) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        rules::sequential_keys(container),
        rules::single_hot_keys(container),
        rules::hot_ranges(container),
        rules::scans(container),
        rules::throughput_too_low(container),
        rules::storage_skew(container),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings = course::dated(container, findings);
    for finding in &mut findings {
        if finding.spell.until.is_none() {
            finding.actions = actions::actions_of(container, finding);
        }
        let statements = container.collection.as_ref().and_then(|name| statements_of(name, finding));
        if let Some(statements) = statements {
            finding.remedy = format!("{} {statements}", finding.remedy);
        }
    }
    if findings.is_empty() {
        findings.push(rules::nothing_wrong(container));
    }
    findings
}

impl PartitionLoad {
    pub fn throttled_share(&self) -> f64 {
        self.throttled as f64 / (self.operations + self.throttled).max(1) as f64
    }

    /// RU/s spent.
    fn rate(&self) -> f64 {
        self.ru / self.window_seconds.max(1.0)
    }

    /// RU/s of queries over ranges of keys, and of feeds.
    fn scan_rate(&self) -> f64 {
        self.scan_ru / self.window_seconds.max(1.0)
    }

    /// RU/s spent, plus the estimated cost of the refused operations at the mean cost of the served ones.
    fn wanted_rate(&self) -> f64 {
        let each = match self.operations {
            0 => 1.0,
            operations => self.ru / operations as f64,
        };
        self.rate() + self.throttled as f64 * each / self.window_seconds.max(1.0)
    }

    fn has_traffic(&self) -> bool {
        self.operations + self.throttled >= OPERATIONS_MIN
    }

    fn scan_share(&self) -> f64 {
        if self.ru > 0.0 { self.scan_ru / self.ru } else { 0.0 }
    }

    fn hottest_key(&self) -> Option<&KeyLoad> {
        self.keys.first().filter(|key| key.share >= SINGLE_KEY_SHARE)
    }
}

impl ContainerLoad {
    /// How long ago the first operation of the window was.
    fn busy_seconds(&self) -> f64 {
        let busy = self.partitions.iter().map(|one| one.busy_seconds).fold(0.0, f64::max);
        if busy > 0.0 { busy } else { f64::INFINITY }
    }

    /// RU/s spent.
    fn rate(&self) -> f64 {
        self.partitions.iter().map(PartitionLoad::rate).sum()
    }

    /// A partition's average use as a share of its budget; `None` without a limit.
    fn used_share(&self, partition: &PartitionLoad) -> Option<f64> {
        let budget = partition.budget.filter(|budget| *budget > 0.0)?;
        Some(partition.rate() / budget)
    }

    fn is_pressed(&self, partition: &PartitionLoad) -> bool {
        partition.has_traffic() && self.is_short_of_room(partition)
    }

    fn is_short_of_room(&self, partition: &PartitionLoad) -> bool {
        partition.throttled_share() > THROTTLED_SHARE
            || match self.used_share(partition) {
                Some(share) => share > BUSY_SHARE,
                None => partition.rate() > UNLIMITED_BUSY_SHARE * self.partition_throughput_max,
            }
    }

    fn pressed(&self) -> impl Iterator<Item = &PartitionLoad> {
        self.partitions.iter().filter(|partition| self.is_pressed(partition))
    }

    /// A partition's share of the load as a multiple of its fair share: its part of the budgets, or an equal one.
    fn heat_factor(&self, partition: &PartitionLoad) -> f64 {
        let budgets: Option<f64> = self.partitions.iter().map(|partition| partition.budget).sum();
        let fair = match (budgets, partition.budget) {
            (Some(all), Some(own)) if all > 0.0 => own / all,
            _ => 1.0 / self.partitions.len().max(1) as f64,
        };
        // Refused operations count as demand: without them a partition at its limit would look like the others.
        let share = partition.wanted_rate() / self.wanted_rate().max(f64::MIN_POSITIVE);
        share / fair.max(f64::MIN_POSITIVE)
    }

    fn wanted_rate(&self) -> f64 {
        self.partitions.iter().map(PartitionLoad::wanted_rate).sum()
    }

    fn is_hot(&self, partition: &PartitionLoad) -> bool {
        self.partitions.len() > 1 && self.heat_factor(partition) > HOT_FACTOR
    }
}
