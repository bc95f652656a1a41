//! All physical partitions in a few numbers each, for metrics: cheap enough to be asked every few seconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_heat::Totals;
use shardlake_model::Throughput;

use crate::Upkeep;
use shardlake_router::ContainerHandle;
use shardlake_router::{RelocationKind, RelocationReport};

/// A container and its partitions.
#[derive(Debug, Clone)]
pub struct ContainerLoad {
    pub database: String,
    pub container: String,
    /// The throughput that a client has set, for the container or for its database.
    pub throughput: Option<Throughput>,
    /// RU/s that autoscale has currently reached.
    pub scaled_to: Option<u64>,
    pub partitions: Vec<PartitionLoad>,
    /// Share of the items that the index under construction holds; `None` where no index is built.
    pub index_build: Option<f64>,
    pub relocation: Option<RelocationLoad>,
}

/// A split, merge or move that has not ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelocationLoad {
    pub kind: RelocationKind,
    /// Share of the items that the targets hold.
    pub copied: f64,
}

#[derive(Debug, Clone)]
pub struct PartitionLoad {
    pub range_id: u32,
    pub size_bytes: u64,
    /// In RU/s; `None` where nothing is limited.
    pub budget: Option<f64>,
    /// Operations refused since the partition began.
    pub refused: u64,
    /// Items removed since the partition began because their time to live had run out.
    pub purged: u64,
    /// Totals of the requested window.
    pub totals: Totals,
}

/// Relocations that have ended since the start, by kind: those that were done, and those that were given up or failed.
#[derive(Debug, Default)]
pub(crate) struct RelocationCounts([[AtomicU64; 2]; 3]);

const KINDS: [RelocationKind; 3] = [RelocationKind::Split, RelocationKind::Merge, RelocationKind::Move];

impl RelocationCounts {
    pub fn count(&self, kind: RelocationKind, outcome: &shardlake_model::Result<RelocationReport>) {
        let place = KINDS.iter().position(|known| *known == kind).expect("every kind is listed");
        self.0[place][usize::from(outcome.is_err())].fetch_add(1, Ordering::Relaxed);
    }
}

impl Upkeep {
    /// Loads of every container.
    pub fn loads(&self, window: Duration) -> Vec<ContainerLoad> {
        let catalog = self.0.router.catalog().load();
        let entries = catalog.containers();
        entries
            .map(|entry| self.load_of(&ContainerHandle { entry: entry.clone(), by_rid: false }, window))
            .collect()
    }

    fn load_of(&self, container: &ContainerHandle, window: Duration) -> ContainerLoad {
        let entry = &container.entry;
        let definition = &entry.record.container.definition;
        let throughput = self.router().throughput_of(container);
        let now = self.0.router.clock().elapsed();
        let partitions = entry.map.iter().map(|partition| {
            let own = |(range_id, _): &&(u32, _)| *range_id == partition.range_id();
            let budget = throughput.partitions.iter().find(own).map(|(_, report)| *report);
            PartitionLoad {
                range_id: partition.range_id(),
                size_bytes: partition.size_bytes(),
                budget: budget.map(|budget| budget.rate_centi as f64 / 100.0),
                refused: budget.map_or(0, |budget| budget.refused),
                purged: partition.hosted().partition().purged(),
                totals: partition.hosted().partition().heat(&definition.partition_key).totals(now, window),
            }
        });
        let offer = throughput.own.as_ref().or(throughput.shared.as_ref());
        ContainerLoad {
            database: entry.database.id.clone(),
            container: definition.id.clone(),
            throughput: offer.map(|offer| offer.throughput),
            scaled_to: throughput.scaled_to,
            partitions: partitions.collect(),
            index_build: entry.record.index.building.as_ref().map(|_| entry.index_progress() as f64 / 100.0),
            relocation: entry.record.relocation.as_ref().map(|record| {
                let progress = entry.motion.state().progress.clone();
                let of = |items: &AtomicU64| items.load(Ordering::Relaxed) as f64;
                let (copied, items) = (of(&progress.items_copied), of(&progress.items));
                let share = if items > 0.0 { copied / items } else { 0.0 };
                RelocationLoad { kind: record.kind, copied: share.min(1.0) }
            }),
        }
    }

    /// Kind, how many were done, how many given up, since the start.
    pub fn relocation_counts(&self) -> [(RelocationKind, u64, u64); 3] {
        let counts = &self.0.relocations.0;
        std::array::from_fn(|place| {
            let [done, given_up] = &counts[place];
            (KINDS[place], done.load(Ordering::Relaxed), given_up.load(Ordering::Relaxed))
        })
    }
}
