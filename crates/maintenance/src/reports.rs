//! Reports of a container and its physical partitions to an operator.

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
    /// The current entry, which may be newer than the requested one.
    pub container: ContainerHandle,
    /// The time of the report, in the clock's elapsed time.
    pub at: Duration,
    pub throughput: ThroughputReport,
    /// Whether operations are refused when the throughput is spent.
    pub enforced: bool,
    /// In the order of the hash space.
    pub partitions: Vec<RangeReport>,
    pub relocation: Option<RelocationStatus>,
    /// Findings about the load or the sizes, the worst first; never empty.
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
    /// Heat of the requested window.
    pub heat: HeatReport,
    /// Its part of the container's request units in that window; 0 without any.
    pub load_share: f64,
    /// Largest first.
    pub largest: Vec<LargeKey>,
    /// Description of the next step for it.
    pub next: String,
}

/// A logical partition by its size.
#[derive(Debug, Clone, PartialEq)]
pub struct LargeKey {
    /// A JSON array, as in the partition key header.
    pub key: String,
    pub size: LogicalSize,
}
