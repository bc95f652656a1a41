//! Physical partitions as an operator sees them: one report per container, gathered from whoever knows.
//!
//! A report is a snapshot taken partition by partition while operations go on, so its numbers may be a moment apart. Nothing
//! here is on the way of an operation, and nothing is changed.

use shardlake_cluster::budget::BudgetReport;
use shardlake_model::{PartitionKeyRange, Result};
use shardlake_partition::Partition;

use crate::catalog::RangeRecord;
use crate::relocation::RelocationStatus;
use crate::throughput::ThroughputReport;
use crate::{Account, ContainerHandle};

/// A container and all its physical partitions.
#[derive(Debug, Clone)]
pub struct ContainerReport {
    /// As it is now, which may be newer than the one that was asked about.
    pub container: ContainerHandle,
    pub throughput: ThroughputReport,
    /// Whether operations are refused when the throughput is spent.
    pub enforced: bool,
    /// In the order of the hash space.
    pub partitions: Vec<RangeReport>,
    pub relocation: Option<RelocationStatus>,
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
    /// What comes next for it, in words.
    pub next: String,
}

impl Account {
    pub async fn container_report(&self, container: &ContainerHandle) -> Result<ContainerReport> {
        let entry = self.current_entry(&container.entry)?;
        let container = ContainerHandle { entry, by_rid: container.by_rid };
        let entry = &container.entry;
        let throughput = self.throughput_of(&container);
        let relocation = container.relocation();
        let described = container.partition_key_ranges().into_iter();
        let parts = described.zip(entry.ranges.iter().zip(entry.map.iter()));
        let partitions = parts
            .map(|(range, (record, partition))| {
                self.range_report(range, record, partition, &throughput, relocation.as_ref())
            })
            .collect();
        let enforced = entry.budget.is_limited();
        Ok(ContainerReport { throughput, enforced, partitions, relocation, container })
    }

    fn range_report(
        &self,
        range: PartitionKeyRange,
        record: &RangeRecord,
        partition: &Partition,
        throughput: &ThroughputReport,
        relocation: Option<&RelocationStatus>,
    ) -> RangeReport {
        let own = |(range_id, _): &&(u32, BudgetReport)| *range_id == range.id;
        let size_bytes = partition.size_bytes();
        let moving = relocation.filter(|relocation| relocation.sources.contains(&range.id));
        RangeReport {
            shard: record.shard,
            items: partition.items(),
            size_bytes,
            budget: throughput.partitions.iter().find(own).map(|(_, report)| *report),
            next: match moving {
                Some(relocation) => words_of_relocation(relocation),
                None => self.words_of_size(size_bytes),
            },
            range,
        }
    }

    fn words_of_size(&self, size_bytes: u64) -> String {
        let max = self.limits().physical_partition_size_bytes_max.max(1);
        let percent = percent_of(size_bytes, max);
        if size_bytes > max {
            format!("it holds {percent} % of what a partition should: split it")
        } else {
            format!("stays: it holds {percent} % of what a partition may")
        }
    }
}

fn words_of_relocation(relocation: &RelocationStatus) -> String {
    let copied = percent_of(relocation.items_copied, relocation.items.max(1)).min(100);
    let (kind, step) = (relocation.kind.name(), relocation.step.name());
    let targets: Vec<String> = relocation.targets.iter().map(|(id, ..)| id.to_string()).collect();
    format!("{kind} into {} in progress: {step}, {copied} % copied", targets.join(" and "))
}

fn percent_of(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole)) as u64
}
