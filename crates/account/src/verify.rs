//! Checks everything the shards store against itself: the catalog, then every partition of every container.

use std::collections::HashMap;
use std::sync::Arc;

use shardlake_catalog::Definitions;
use shardlake_charge::ChargeTable;
use shardlake_model::{Limits, Result};
use shardlake_partition::{ContainerShape, PartitionReport, verify_partition};
use shardlake_storage::{ScanOptions, Shard};

use shardlake_serving::Shards;
use shardlake_serving::catalog_error;
use shardlake_serving::identity_of;
use shardlake_serving::layouts_of;

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
    verify_shards(&shards.into()).await
}

async fn verify_shards(shards: &Shards) -> Result<VerifyReport> {
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
        let shape = ContainerShape::new(&record.container, layouts, limits.clone(), ChargeTable::default())?;
        let shape = Arc::new(shape);
        // What a relocation has copied so far is not yet anybody's to read, and goes on or is dropped at the next start.
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
            let partition = verify_partition(shard, &identity, &shape).await?;
            report.partitions.push(VerifiedPartition { name, report: partition });
        }
    }
    let known = known_partitions(&stored);
    report.problems.extend(shardlake_serving::membership_problems(shards).await?);
    for (shard, number) in shards.iter().zip(0..) {
        find_strays(shard, number, &known, &mut report).await?;
    }
    Ok(report)
}

/// From the numbers of partitions to their shards.
type Known = HashMap<u32, u16>;

/// The catalog is partition 0 of shard 0.
fn known_partitions(stored: &Definitions) -> Known {
    let dropped = stored.dropped.iter().map(|(uid, mark)| (uid.0, mark.shard()));
    let ranges = stored.containers.values().flat_map(|record| record.all_ranges());
    dropped.chain([(0, 0)]).chain(ranges.map(|range| (range.uid, range.shard))).collect()
}

/// Every key must belong to the catalog, or to a partition that the catalog knows to be on this shard, or be what a statement answered. Skips from
/// partition to partition.
async fn find_strays(shard: &Shard, number: u16, known: &Known, report: &mut VerifyReport) -> Result<()> {
    let snapshot = shard.snapshot();
    let mark = shardlake_catalog::key(shardlake_catalog::MEMBERSHIP, &[]);
    let own = [mark, shardlake_catalog::stamp_key()];
    let mut from = vec![0];
    loop {
        let options = ScanOptions { limit: Some(1), ..ScanOptions::default() };
        let mut scan = snapshot.scan(from..vec![0xFF; 8], options);
        let chunk = scan.next_chunk().await.map_err(shardlake_partition::storage_error)?;
        let Some((key, _)) = chunk.into_iter().flatten().next() else { return Ok(()) };
        let Some(uid) = key.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes) else {
            let problem = format!("a key of {} bytes on shard {number} belongs to nothing", key.len());
            report.problems.push(problem);
            return Ok(());
        };
        if shardlake_partition::is_statement_key(&key) {
            // They are of no partition, and nothing lies behind them.
            return Ok(());
        }
        if number > 0 && own.iter().any(|own| *key == **own) {
            // What makes it a shard of this account, and the stamp of its log.
            from = [&*key, &[0]].concat();
            continue;
        }
        match known.get(&uid) {
            Some(shard) if *shard == number => {}
            Some(shard) => report
                .problems
                .push(format!("partition number {uid} of shard {shard} has data on shard {number}")),
            None => report
                .problems
                .push(format!("data of partition number {uid} on shard {number} belongs to no container")),
        }
        match uid.checked_add(1) {
            Some(next) => from = next.to_be_bytes().to_vec(),
            None => return Ok(()),
        }
    }
}
