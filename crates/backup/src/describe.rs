//! Description of a state: its partitions and the progress of each, from the catalog and the last
//! entry of each change log.

use shardlake_catalog::Definitions;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::{position_of, storage_error};
use shardlake_router::catalog_error;
use shardlake_stdx::Timestamp;
use shardlake_storage::{Stamp, View};

/// An account at one point in time, in short.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moment {
    pub partitions: Vec<MomentOfPartition>,
    /// Splits, merges and moves in progress, such as `move of shop/orders`: they continue from there.
    pub relocations: Vec<String>,
    /// The position of each shard's log; `None` where the log is not archived.
    pub stamps: Vec<Option<Stamp>>,
}

impl Moment {
    /// The first containers as `database/container`, each once.
    pub fn containers(&self, names_max: usize) -> Vec<String> {
        let mut names: Vec<String> = self
            .partitions
            .iter()
            .map(|partition| format!("{}/{}", partition.database, partition.container))
            .collect();
        names.dedup();
        names.truncate(names_max);
        names
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MomentOfPartition {
    pub database: String,
    pub container: String,
    pub range_id: u32,
    pub shard: u16,
    /// LSN of the last commit; 0 without one.
    pub lsn: u64,
    /// Time of the last commit.
    pub written: Option<Timestamp>,
    pub items: u64,
    /// Size of the items as JSON.
    pub size_bytes: u64,
}

/// `views` are of one point in time, in the order of the shards. Reads the catalog and one row of
/// each partition.
pub async fn describe(views: &[View]) -> Result<Moment> {
    let first = views.first().ok_or_else(|| Error::bad_request("an account has at least one shard"))?;
    let definitions = shardlake_catalog::load_view(first).await.map_err(catalog_error)?;
    let mut moment = Moment::default();
    for record in definitions.containers.values() {
        let container = &record.container.definition.id;
        let Some(database) = name_of_database(&definitions, record.container.rid.database) else { continue };
        if let Some(relocation) = &record.relocation {
            moment.relocations.push(format!("{} of {database}/{container}", relocation.kind.name()));
        }
        for range in &record.ranges {
            let view = views.get(usize::from(range.shard)).ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, format!("data of shard {} is missing", range.shard))
            })?;
            let position = position_of(view, range.placed().uid).await?;
            moment.partitions.push(MomentOfPartition {
                database: database.to_owned(),
                container: container.clone(),
                range_id: range.range_id,
                shard: range.shard,
                lsn: position.map_or(0, |position| position.lsn),
                written: position.map(|position| position.timestamp),
                items: position.map_or(0, |position| position.items),
                size_bytes: position.map_or(0, |position| position.size_bytes),
            });
        }
    }
    let name = |partition: &MomentOfPartition| {
        (partition.database.clone(), partition.container.clone(), partition.range_id)
    };
    for view in views {
        moment.stamps.push(Stamp::of(view, &shardlake_catalog::stamp_key()).await.map_err(storage_error)?);
    }
    moment.partitions.sort_by_cached_key(name);
    moment.relocations.sort_unstable();
    Ok(moment)
}

fn name_of_database(definitions: &Definitions, rid: shardlake_model::DatabaseRid) -> Option<&str> {
    definitions.databases.get(&rid).map(|database| database.id.as_str())
}
