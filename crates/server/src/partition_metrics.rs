//! Metrics of containers and partitions, read anew for each page, so that deleted ones are not shown.
//!
//! Labels name databases and containers, never keys or items. Of partitions only the busiest are shown: a page stays readable,
//! and a monitoring system its size.

use std::time::Duration;

use shardlake_account::{Account, ContainerLoad, PartitionLoad};
use shardlake_model::Throughput;

use crate::exposition::Page;
use crate::metric_table as table;

/// Partitions shown, of all containers together.
const PARTITIONS_MAX: usize = 1_000;
/// Window of the reported maximum, as in the service: the busiest second of each minute.
const WINDOW: Duration = Duration::from_secs(60);

/// The page's part about containers and partitions.
pub fn write(page: &mut Page, account: &Account) {
    let loads = account.maintenance().loads(WINDOW);
    for load in &loads {
        write_container(page, load);
    }
    write_partitions(page, &loads);
    let builds = loads.iter().filter(|load| load.index_build.is_some()).count();
    page.set(&table::INDEX_BUILDS, builds as u64);
    for (kind, done, given_up) in account.maintenance().relocation_counts() {
        for (outcome, count) in [("done", done), ("given_up", given_up)] {
            page.family(&table::RELOCATIONS).push([kind.name(), outcome], count);
        }
        let relocations = loads.iter().filter_map(|load| load.relocation);
        let active = relocations.filter(|relocation| relocation.kind == kind).count();
        page.family(&table::RELOCATIONS_ACTIVE).push([kind.name()], active as u64);
    }
}

fn write_container(page: &mut Page, load: &ContainerLoad) {
    let labels = [&*load.database, &*load.container];
    if let Some(done) = load.index_build {
        page.family(&table::INDEX_BUILD_DONE).push(labels, done);
    }
    if let Some(relocation) = load.relocation {
        let labels = [labels[0], labels[1], relocation.kind.name()];
        page.family(&table::RELOCATION_COPIED).push(labels, relocation.copied);
    }
    let Some(throughput) = load.throughput else { return };
    page.family(&table::CONTAINER_THROUGHPUT).push(labels, load.scaled_to.unwrap_or(throughput.maximum()));
    if let Throughput::Autoscale(autoscale) = throughput {
        page.family(&table::CONTAINER_AUTOSCALE_MAX).push(labels, autoscale.max_throughput);
    }
}

/// The busiest first; among equals in the order of the catalog.
fn write_partitions(page: &mut Page, loads: &[ContainerLoad]) {
    let mut all: Vec<(&ContainerLoad, &PartitionLoad)> = loads
        .iter()
        .flat_map(|load| load.partitions.iter().map(move |partition| (load, partition)))
        .collect();
    all.sort_by(|(_, left), (_, right)| right.totals.ru.total_cmp(&left.totals.ru));
    page.set(&table::PARTITIONS_NOT_SHOWN, all.len().saturating_sub(PARTITIONS_MAX) as u64);
    for (load, partition) in all.into_iter().take(PARTITIONS_MAX) {
        write_partition(page, load, partition);
    }
}

fn write_partition(page: &mut Page, load: &ContainerLoad, partition: &PartitionLoad) {
    let id = partition.range_id.to_string();
    let labels = [&*load.database, &*load.container, &*id];
    page.family(&table::PARTITION_SIZE).push(labels, partition.size_bytes);
    page.family(&table::PARTITION_THROTTLED).push(labels, partition.refused);
    page.family(&table::PARTITION_PURGED).push(labels, partition.purged);
    if let Some(budget) = partition.budget {
        page.family(&table::PARTITION_THROUGHPUT).push(labels, budget);
        let used = partition.totals.busiest_second_ru / budget.max(f64::MIN_POSITIVE);
        page.family(&table::PARTITION_THROUGHPUT_USED).push(labels, used.min(1.0));
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
        let context = RequestContext::internal(account.router().clock(), account.router().random().guid());
        account.definitions().create_database(&context, "db", None).await.expect("created");
        let key = serde_json::json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let definition = serde_json::from_value(serde_json::json!({ "id": "items", "partitionKey": key }));
        let throughput = Some(Throughput::Manual(12_000));
        let definition = definition.expect("a definition");
        let _created = account
            .definitions()
            .create_container(&context, "db", definition, throughput)
            .await
            .expect("created");
        let mut page = Page::default();
        write(&mut page, &account);
        let page = page.text();
        for line in [
            r#"shardlake_partition_throughput_used_ratio{database="db",container="items",partition_key_range_id="1"} 0.0"#,
            r#"shardlake_partition_throughput{database="db",container="items",partition_key_range_id="0"} 6000.0"#,
            r#"shardlake_partition_throttled_requests_total{database="db",container="items",partition_key_range_id="0"} 0"#,
            r#"shardlake_partition_purged_items_total{database="db",container="items",partition_key_range_id="0"} 0"#,
            r#"shardlake_container_throughput{database="db",container="items"} 12000"#,
            r#"shardlake_relocations_total{kind="split",outcome="done"} 0"#,
            r#"shardlake_relocations_active{kind="move"} 0"#,
            "shardlake_index_builds 0",
            "shardlake_partitions_not_shown 0",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
    }
}
