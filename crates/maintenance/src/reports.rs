//! What an operator sees of a container and its physical partitions.

use std::time::Duration;

use shardlake_capacity::budget::BudgetReport;
use shardlake_capacity::diagnosis::Finding;
use shardlake_heat::HeatReport;
use shardlake_model::PartitionKeyRange;
use shardlake_partition::LogicalSize;
use shardlake_router::{ContainerHandle, RelocationStatus, ThroughputReport};

/// A container and all its physical partitions.
#[derive(Debug, Clone)]
pub struct ContainerReport {
    /// As it is now, which may be newer than the one that was asked about.
    pub container: ContainerHandle,
    /// The moment that it is of, in the clock's elapsed time.
    pub at: Duration,
    pub throughput: ThroughputReport,
    /// Whether operations are refused when the throughput is spent.
    pub enforced: bool,
    /// In the order of the hash space.
    pub partitions: Vec<RangeReport>,
    pub relocation: Option<RelocationStatus>,
    /// What is wrong with the load or the sizes, the worst first; never empty.
    pub diagnosis: Vec<Finding>,
}

/// One physical partition.
#[derive(Debug, Clone)]
pub struct RangeReport {
    pub range: PartitionKeyRange,
    pub shard: u16,
    pub items: u64,
    pub size_bytes: u64,
    /// `None` where nothing is limited.
    pub budget: Option<BudgetReport>,
    /// Of the window that was asked for.
    pub heat: HeatReport,
    /// Its part of the container's request units in that window; 0 where there were none.
    pub load_share: f64,
    /// Largest first.
    pub largest: Vec<LargeKey>,
    /// What comes next for it, in words.
    pub next: String,
}

/// A logical partition by its size.
#[derive(Debug, Clone, PartialEq)]
pub struct LargeKey {
    /// A JSON array, as in the partition key header.
    pub key: String,
    pub size: LogicalSize,
}
