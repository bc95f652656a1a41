//! Checks everything the shards store against itself: the catalog, then every partition of every container.

use std::collections::HashMap;
use std::sync::Arc;

use shardlake_charge::ChargeTable;
use shardlake_model::{Limits, Result};
use shardlake_partition::{ContainerSchema, PartitionReport, verify_partition};
use shardlake_storage::Shard;

use shardlake_router::{NumbersOnShard, Shards, catalog_error, identity_of, known_partitions, layouts_of};

#[derive(Debug, Default)]
pub struct VerifyReport {
    pub databases: u64,
    pub containers: u64,
    /// Stored procedures, triggers and user-defined functions.
    pub scripts: u64,
    pub offers: u64,
    pub partitions: Vec<VerifiedPartition>,
    /// Disagreements outside any one partition.
    pub problems: Vec<String>,
}

#[derive(Debug)]
pub struct VerifiedPartition {
    /// `database/container/range id`.
    pub name: String,
    pub report: PartitionReport,
}

impl VerifyReport {
    pub fn problem_count(&self) -> u64 {
        let in_partitions: u64 = self.partitions.iter().map(|partition| partition.report.problem_count).sum();
        in_partitions + self.problems.len() as u64
    }
}

/// Reads everything; changes nothing. `Err` only when a shard cannot be read at all.
pub async fn verify(shards: impl Into<Shards>) -> Result<VerifyReport> {
    verify_shards(&shards.into(), &|_| ()).await
}

/// The same. `on_items` receives the number of items whenever some were read.
pub async fn verify_shards(shards: &Shards, on_items: &(dyn Fn(u64) + Sync)) -> Result<VerifyReport> {
    shards.check_count()?;
    let stored = shardlake_catalog::load(shards.first()).await.map_err(catalog_error)?;
    let mut report = VerifyReport {
        databases: stored.databases.len() as u64,
        containers: stored.containers.len() as u64,
        scripts: stored.scripts.len() as u64,
        offers: stored.offers.len() as u64,
        problems: [shardlake_catalog::broken(&stored), shardlake_catalog::loose_ends(&stored)].concat(),
        ..VerifyReport::default()
    };
    let limits = Arc::new(Limits::default());
    for record in stored.containers.values() {
        let rid = record.container.rid;
        let Some(database) = stored.databases.get(&rid.database) else { continue };
        let layouts = layouts_of(&record.index)?;
        let shape = ContainerSchema::new(&record.container, layouts, limits.clone(), ChargeTable::default())?;
        let shape = Arc::new(shape);
        // A relocation's copies are not readable yet; the next start continues or drops them.
        for range in record.all_ranges().filter(|range| shards.get(range.shard).is_err()) {
            report.problems.push(format!(
                "partition number {} of container {rid} lies on shard {}, which is not there",
                range.uid, range.shard
            ));
        }
        for range in &record.ranges {
            let Ok(shard) = shards.get(range.shard) else { continue };
            let name = format!("{}/{}/{}", database.id, record.container.definition.id, range.range_id);
            let identity = identity_of(range, record.session_version)?;
            let partition = verify_partition(shard, &identity, &shape, on_items).await?;
            report.partitions.push(VerifiedPartition { name, report: partition });
        }
    }
    let ranges: usize = stored.containers.values().map(|record| record.ranges.len()).sum();
    assert!(report.partitions.len() <= ranges, "a partition is checked once");
    let known = known_partitions(&stored);
    report.problems.extend(shardlake_router::membership_problems(shards).await?);
    for (shard, number) in shards.iter().zip(0..) {
        find_strays(shard, number, &known, &mut report).await?;
    }
    Ok(report)
}

/// Every key belongs to the catalog, to a partition that the catalog has on this shard, or to the answer of a statement.
async fn find_strays(
    shard: &Shard,
    number: u16,
    known: &HashMap<u32, u16>,
    report: &mut VerifyReport,
) -> Result<()> {
    let NumbersOnShard { numbers, malformed_key_bytes } = NumbersOnShard::read(shard, number).await?;
    for uid in numbers {
        report.problems.extend(match known.get(&uid) {
            Some(shard) if *shard == number => None,
            Some(shard) => {
                Some(format!("partition number {uid} of shard {shard} has data on shard {number}"))
            }
            None => Some(format!("data of partition number {uid} on shard {number} belongs to no container")),
        });
    }
    let malformed = malformed_key_bytes
        .map(|bytes| format!("a key of {bytes} bytes on shard {number} belongs to nothing"));
    report.problems.extend(malformed);
    Ok(())
}
