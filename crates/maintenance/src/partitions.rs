//! Physical partitions as an operator sees them: one report per container, gathered from its partitions and
//! the catalog.
//!
//! A report is a snapshot taken partition by partition while operations continue, so its numbers may be of
//! slightly different times. Operations do not pass through this file, and it changes nothing.

use std::time::Duration;

use shardlake_capacity::diagnosis::CollectionName;
use shardlake_capacity::policy::NextStep;
use shardlake_document::partition_key_text;
use shardlake_heat::HeatReport;
use shardlake_model::{PartitionKeyRange, Result};

use crate::Upkeep;
use crate::diagnosis::diagnosis_of;
use crate::partition_descriptions::words_of_next;
use crate::reports::{ContainerReport, LargeKey, RangeReport};
use shardlake_router::ContainerHandle;
use shardlake_router::RelocationStatus;
use shardlake_router::{ContainerEntry, PartitionHandle};

/// Partitions younger than this are judged as if they were this old: a short burst does not show a partition's load.
const COUNTED_MIN: Duration = Duration::from_secs(10);
/// Number of the largest logical partitions reported for each partition.
const LARGEST_KEYS: usize = 10;

impl Upkeep {
    /// `window` is how far back the load goes.
    pub async fn container_report(
        &self,
        container: &ContainerHandle,
        window: Duration,
    ) -> Result<ContainerReport> {
        let mut routing = self.router().routing_of(self.router().current_entry(&container.entry)?);
        loop {
            let container = ContainerHandle { entry: routing.entry.clone(), by_rid: container.by_rid };
            let outcome = self.report_of(container, window).await;
            if !routing.has_moved(&outcome).await? {
                return outcome;
            }
        }
    }

    async fn report_of(&self, container: ContainerHandle, window: Duration) -> Result<ContainerReport> {
        let entry = container.entry.clone();
        let next = self.next_step_of(&container).await?;
        let throughput = self.router().throughput_of(&container);
        let relocation = container.relocation();
        let at = self.0.router.clock().elapsed();
        let mut partitions = Vec::with_capacity(entry.record.ranges.len());
        let described = container.partition_key_ranges().into_iter();
        for (range, (record, partition)) in described.zip(entry.record.ranges.iter().zip(entry.map.iter())) {
            let report = self.range_report(&entry, range, partition, (at, window)).await?;
            let budget = throughput.partitions.iter().find(|(range_id, _)| *range_id == record.range_id);
            partitions.push(RangeReport {
                shard: record.shard,
                budget: budget.map(|(_, report)| *report),
                next: self.next_words(&report, &next, relocation.as_ref()),
                ..report
            });
        }
        // Rates are compared, since partitions may have counted for times of different length.
        let rate = |heat: &HeatReport| heat.totals.ru / f64::from(heat.window_seconds.max(1));
        let total: f64 = partitions.iter().map(|partition| rate(&partition.heat)).sum();
        for partition in &mut partitions {
            partition.load_share = if total > 0.0 { rate(&partition.heat) / total } else { 0.0 };
        }
        let enforced = entry.budget.is_limited();
        let name = self.collection_name_of(&entry);
        let diagnosis = diagnosis_of(&partitions, throughput.database.as_ref(), self.router().limits(), name);
        Ok(ContainerReport { at, throughput, enforced, partitions, relocation, diagnosis, container })
    }

    /// Name of the collection, for a container that was created over MongoDB's protocol.
    fn collection_name_of(&self, entry: &ContainerEntry) -> Option<CollectionName> {
        let container = &entry.record.container;
        let catalog = self.0.router.catalog().load();
        let database = catalog.definitions.databases.get(&container.rid.database)?;
        container.is_collection.then(|| CollectionName {
            database: database.id.clone(),
            collection: container.definition.id.clone(),
            is_sharded: container.definition.partition_key.system_key != Some(true),
        })
    }

    /// Facts that the partition itself knows.
    async fn range_report(
        &self,
        entry: &ContainerEntry,
        range: PartitionKeyRange,
        partition: &PartitionHandle,
        (now, window): (Duration, Duration),
    ) -> Result<RangeReport> {
        let definition = &entry.record.container.definition.partition_key;
        let counted = entry.history.counted_since(partition.range_id()).map_or(window, |since| {
            // Whole seconds, like the counts: the second in which it began is the first.
            Duration::from_secs(now.as_secs().saturating_sub(since.as_secs())).max(COUNTED_MIN)
        });
        let heat = partition.hosted().partition().heat(definition).report(now, window.min(counted));
        let largest = partition.hosted().partition().largest_logical_partitions(LARGEST_KEYS).await?;
        let largest = largest
            .iter()
            .map(|sized| LargeKey { key: partition_key_text(&sized.key.partition_key), size: sized.size })
            .collect();
        Ok(RangeReport {
            range,
            shard: 0,
            items: partition.items(),
            size_bytes: partition.size_bytes(),
            budget: None,
            heat,
            load_share: 0.0,
            largest,
            next: String::new(),
        })
    }

    fn next_words(
        &self,
        report: &RangeReport,
        next: &NextStep,
        relocation: Option<&RelocationStatus>,
    ) -> String {
        words_of_next((report.range.id, report.size_bytes), next, relocation, self.router().limits())
    }
}
