//! Metrics of containers and partitions, made anew whenever somebody asks, so that what is gone is not shown.
//!
//! They have the names that the service's metrics have, in Prometheus' spelling. Labels name databases and containers, never
//! keys or items. Of partitions only the busiest are shown: a page stays readable, and a monitoring system its size.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use shardlake_account::{Account, ContainerLoad, PartitionLoad};
use shardlake_model::Throughput;

use crate::metrics::PREFIX;

/// Of all containers together.
const PARTITIONS_MAX: usize = 1_000;
/// As the service reports it: the busiest second of each minute.
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ContainerLabels {
    database: String,
    container: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartitionLabels {
    database: String,
    container: String,
    partition_key_range_id: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RelocationLabels {
    kind: &'static str,
    outcome: &'static str,
}

type Numbers<L> = Family<L, Gauge<f64, AtomicU64>>;

#[derive(Debug, Default)]
struct PartitionMetrics {
    normalized: Numbers<PartitionLabels>,
    size: Numbers<PartitionLabels>,
    throughput: Numbers<PartitionLabels>,
    throttled: Family<PartitionLabels, Counter>,
    purged: Family<PartitionLabels, Counter>,
    provisioned: Numbers<ContainerLabels>,
    autoscale_max: Numbers<ContainerLabels>,
    autoscaled: Numbers<ContainerLabels>,
    relocations: Family<RelocationLabels, Counter>,
    left_out: Gauge,
}

/// The page's part about partitions.
pub fn write(page: &mut String, account: &Account) {
    let metrics = PartitionMetrics::default();
    let loads = account.loads(WINDOW);
    for load in &loads {
        metrics.show_container(load);
    }
    metrics.show_partitions(&loads);
    for (kind, done, given_up) in account.relocation_counts() {
        for (outcome, count) in [("done", done), ("given_up", given_up)] {
            metrics.relocations.get_or_create(&RelocationLabels { kind: kind.name(), outcome }).inc_by(count);
        }
    }
    text::encode_registry(page, &metrics.registry()).expect("writing to a string cannot fail");
}

impl PartitionMetrics {
    fn show_container(&self, load: &ContainerLoad) {
        let Some(throughput) = load.throughput else { return };
        let labels = ContainerLabels { database: load.database.clone(), container: load.container.clone() };
        let provisioned = load.scaled_to.unwrap_or(throughput.maximum());
        self.provisioned.get_or_create(&labels).set(provisioned as f64);
        if let Throughput::Autoscale(autoscale) = throughput {
            self.autoscale_max.get_or_create(&labels).set(autoscale.max_throughput as f64);
            self.autoscaled.get_or_create(&labels).set(provisioned as f64);
        }
    }

    /// The busiest first; among equals in the order of the catalog.
    fn show_partitions(&self, loads: &[ContainerLoad]) {
        let mut all: Vec<(&ContainerLoad, &PartitionLoad)> = loads
            .iter()
            .flat_map(|load| load.partitions.iter().map(move |partition| (load, partition)))
            .collect();
        all.sort_by(|(_, left), (_, right)| right.totals.ru.total_cmp(&left.totals.ru));
        self.left_out.set(all.len().saturating_sub(PARTITIONS_MAX) as i64);
        for (load, partition) in all.into_iter().take(PARTITIONS_MAX) {
            self.show_partition(load, partition);
        }
    }

    fn show_partition(&self, load: &ContainerLoad, partition: &PartitionLoad) {
        let labels = PartitionLabels {
            database: load.database.clone(),
            container: load.container.clone(),
            partition_key_range_id: partition.range_id,
        };
        self.size.get_or_create(&labels).set(partition.size_bytes as f64);
        self.throttled.get_or_create(&labels).inc_by(partition.refused);
        self.purged.get_or_create(&labels).inc_by(partition.purged);
        if let Some(budget) = partition.budget {
            self.throughput.get_or_create(&labels).set(budget);
            let percent = partition.totals.busiest_second_ru * 100.0 / budget.max(f64::MIN_POSITIVE);
            self.normalized.get_or_create(&labels).set(percent.min(100.0));
        }
    }

    fn registry(&self) -> Registry {
        let mut to = Registry::with_prefix(PREFIX);
        let help = "Percent of its RU/s that a partition used in the busiest second of the last minute";
        to.register("normalized_ru_consumption", help, self.normalized.clone());
        let help = "JSON size of a partition's items, in bytes";
        to.register("physical_partition_size_info", help, self.size.clone());
        let help = "RU/s that a partition may hand out";
        to.register("physical_partition_throughput_info", help, self.throughput.clone());
        let help = "Operations that a partition refused for want of request units";
        to.register("throttled_requests", help, self.throttled.clone());
        let help = "Items that a partition removed because their time to live had run out";
        to.register("purged_items", help, self.purged.clone());
        to.register("provisioned_throughput", "RU/s of a container", self.provisioned.clone());
        let help = "RU/s up to which a container is scaled";
        to.register("autoscale_max_throughput", help, self.autoscale_max.clone());
        to.register("autoscaled_ru", "RU/s that autoscale is at", self.autoscaled.clone());
        let help = "Splits, merges and moves that have ended";
        to.register("relocations", help, self.relocations.clone());
        let help = "Partitions that are not shown, because only the 1,000 busiest are";
        to.register("partitions_not_shown", help, self.left_out.clone());
        to
    }
}

#[cfg(test)]
mod tests {
    use shardlake_account::AccountOptions;
    use shardlake_model::RequestContext;
    use shardlake_storage::{Shard, ShardOptions};

    use super::*;

    #[tokio::test]
    async fn containers_and_partitions_are_shown_by_name_and_id() {
        let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
        let account = Account::open(shard, AccountOptions::default()).await.expect("opens");
        let context = RequestContext::internal(account.clock(), account.random().guid());
        account.create_database(&context, "db", None).await.expect("created");
        let key = serde_json::json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let definition = serde_json::from_value(serde_json::json!({ "id": "items", "partitionKey": key }));
        let throughput = Some(Throughput::Manual(12_000));
        let definition = definition.expect("a definition");
        let _created =
            account.create_container(&context, "db", definition, throughput).await.expect("created");
        let mut page = String::new();
        write(&mut page, &account);
        for line in [
            r#"shardlake_normalized_ru_consumption{database="db",container="items",partition_key_range_id="1"} 0.0"#,
            r#"shardlake_physical_partition_throughput_info{database="db",container="items",partition_key_range_id="0"} 6000.0"#,
            r#"shardlake_throttled_requests_total{database="db",container="items",partition_key_range_id="0"} 0"#,
            r#"shardlake_purged_items_total{database="db",container="items",partition_key_range_id="0"} 0"#,
            r#"shardlake_provisioned_throughput{database="db",container="items"} 12000.0"#,
            r#"shardlake_relocations_total{kind="split",outcome="done"} 0"#,
            "shardlake_partitions_not_shown 0",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
    }
}
