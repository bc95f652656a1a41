//! Checks everything the shards store against itself: the catalog, then every partition of every container.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use shardlake_charge::ChargeTable;
use shardlake_model::{Limits, Result};
use shardlake_partition::{ContainerShape, PartitionReport, PartitionUid, verify_partition};
use shardlake_storage::{ScanOptions, Shard};

use crate::catalog::{self, Placed};
use crate::membership;
use crate::shards::Shards;

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
    let stored = catalog::load(shards.first()).await?;
    let mut report = VerifyReport {
        databases: stored.databases.len() as u64,
        containers: stored.containers.len() as u64,
        scripts: stored.scripts.values().map(|of_container| of_container.0.len() as u64).sum(),
        offers: stored.offers.len() as u64,
        ..VerifyReport::default()
    };
    let limits = Arc::new(Limits::default());
    // The catalog is partition 0 of shard 0. A number is never used for two partitions, on whichever shards.
    let catalog = Placed { shard: 0, uid: PartitionUid(0) };
    let mut known: Known = stored.dropped.iter().chain([&catalog]).map(|at| (at.uid.0, at.shard)).collect();
    for record in &stored.containers {
        let rid = record.container.rid;
        let database = stored.databases.iter().find(|database| database.rid == rid.database);
        let Some(database) = database else {
            report.problems.push(format!("container {rid} belongs to no database"));
            continue;
        };
        let layouts = record.index.layouts()?;
        let shape = ContainerShape::new(&record.container, layouts, limits.clone(), ChargeTable::default())?;
        let shape = Arc::new(shape);
        // What a relocation has copied so far is not yet anybody's to read, and goes on or is dropped at the next start.
        for target in record.relocation.iter().flat_map(|relocation| &relocation.targets) {
            if known.insert(target.uid, target.shard).is_some() || target.uid >= stored.numbers.partition {
                report.problems.push(format!(
                    "a relocation of container {rid} copies to partition number {}, which is not its own",
                    target.uid
                ));
            }
            if shards.get(target.shard).is_err() {
                report.problems.push(format!(
                    "a relocation of container {rid} copies to shard {}, which is not there",
                    target.shard
                ));
            }
        }
        for range in &record.ranges {
            let name = format!("{}/{}/{}", database.id, record.container.definition.id, range.range_id);
            if known.insert(range.uid, range.shard).is_some() {
                report.problems.push(format!("partition number {} of {name} is in use twice", range.uid));
            }
            if range.uid >= stored.numbers.partition {
                report
                    .problems
                    .push(format!("partition number {} of {name} was never handed out", range.uid));
            }
            let Ok(shard) = shards.get(range.shard) else {
                report.problems.push(format!("{name} lies on shard {}, which is not there", range.shard));
                continue;
            };
            let partition = verify_partition(shard, &range.identity(record.session_version)?, &shape).await?;
            report.partitions.push(VerifiedPartition { name, report: partition });
        }
    }
    for rid in stored.scripts.keys() {
        if !stored.containers.iter().any(|record| record.container.rid == *rid) {
            report.problems.push(format!("there are scripts of container {rid}, which does not exist"));
        }
    }
    for offer in &stored.offers {
        let of_database =
            stored.databases.iter().any(|database| database.rid.to_string() == offer.resource_rid);
        let of_container =
            stored.containers.iter().any(|record| record.container.rid.to_string() == offer.resource_rid);
        if !of_database && !of_container {
            report.problems.push(format!("offer {} is for a resource that does not exist", offer.rid));
        }
    }
    let databases: HashSet<_> = stored.databases.iter().map(|database| database.rid).collect();
    for user in stored.users.iter().filter(|user| !databases.contains(&user.rid.database)) {
        report.problems.push(format!("user {} belongs to no database", user.rid));
    }
    let users: HashSet<_> = stored.users.iter().map(|user| user.rid).collect();
    for permission in stored.permissions.iter().filter(|permission| !users.contains(&permission.rid.user)) {
        report.problems.push(format!("permission {} belongs to no user", permission.rid));
    }
    report.problems.extend(membership::problems(shards).await?);
    for (shard, number) in shards.iter().zip(0..) {
        find_strays(shard, number, &known, &mut report).await?;
    }
    Ok(report)
}

/// From the numbers of partitions to their shards.
type Known = HashMap<u32, u16>;

/// Every key must belong to the catalog or to a partition that the catalog knows to be on this shard. Skips from
/// partition to partition.
async fn find_strays(shard: &Shard, number: u16, known: &Known, report: &mut VerifyReport) -> Result<()> {
    let snapshot = shard.snapshot();
    let mark = catalog::key(catalog::MEMBERSHIP, &[]);
    let mut from = vec![0];
    loop {
        let options = ScanOptions { limit: Some(1), reverse: false };
        let mut scan = snapshot.scan(from..vec![0xFF; 8], options);
        let chunk = scan.next_chunk().await.map_err(shardlake_partition::storage_error)?;
        let Some((key, _)) = chunk.into_iter().flatten().next() else { return Ok(()) };
        let Some(uid) = key.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes) else {
            let problem = format!("a key of {} bytes on shard {number} belongs to nothing", key.len());
            report.problems.push(problem);
            return Ok(());
        };
        if number > 0 && *key == *mark {
            // What makes it a shard of this account.
            from = [&*mark, &[0]].concat();
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
