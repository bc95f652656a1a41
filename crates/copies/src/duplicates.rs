//! Rows of a unique index beyond the first of their key: counted once after each start, and listed on demand.
//!
//! The count follows from answers of partitions afterwards (`at_work.rs`). Both look at every row of the index.

use shardlake_document::{RawValue, partition_key_text};
use shardlake_model::{ContainerRid, Error, Result};
use shardlake_partition::{ItemRow, StoredItem, item_of_position, key_name};
use shardlake_router::Serving;
use shardlake_routing::KeyRange;
use shardlake_storage::Shard;

use crate::Copies;

/// Duplicates that are listed; others are counted.
pub const DUPLICATES_LISTED: usize = 1000;
/// Items of one view.
const CHUNK_ITEMS: usize = 64_000;

/// A row of a key that another row holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateRow {
    /// Partition key in the index, as JSON.
    pub key: String,
    pub id: String,
    /// Id of the source's item.
    pub item: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Duplicates {
    pub count: u64,
    /// The first of them, in the order of their keys' hashes.
    pub listed: Vec<DuplicateRow>,
}

impl Copies {
    /// The rows of a unique index beyond the first of their key.
    pub async fn duplicates(&self, database: &str, container: &str) -> Result<Duplicates> {
        let rid = self.rid_of(database, container)?;
        let live = self.router().live_catalog();
        let is_unique =
            live.definitions.secondary_indexes.get(&rid).is_some_and(|record| record.settings.unique);
        match is_unique {
            true => duplicates_of(self.router(), rid).await,
            false => Err(Error::bad_request(format!(
                "the index '{database}/{container}' is not unique, so it has no duplicates: its setting 'unique' is false"
            ))),
        }
    }
}

pub(crate) async fn duplicates_of(serving: &Serving, index: ContainerRid) -> Result<Duplicates> {
    let mut found = Duplicates::default();
    let mut rest = KeyRange::full();
    let mut work = Shard::paced_work(serving.shards(), 1);
    let mut routing = serving.routing_of(serving.entry_of_rid(index)?);
    while rest.min < rest.max {
        let shape = routing.entry.shape.clone();
        let partition = routing.entry.map.overlapping(&rest).next().cloned();
        let partition =
            partition.ok_or_else(|| Error::internal("a part of the hash space that no range has"))?;
        // Of a chunk that has to be read again nothing counts.
        let read = async {
            let mut chunk = Duplicates::default();
            let mut round = partition.hosted().partition().items_round(&rest, CHUNK_ITEMS).await?;
            while let Some(rows) = round.next_page().await? {
                for ItemRow { key, record } in rows {
                    let (key, id) = item_of_position(&key)?;
                    let Some(name) = key_name(&key.partition_key).filter(|name| *name != id) else {
                        continue;
                    };
                    debug_assert!(id.starts_with(&name), "a row that holds no name begins with it");
                    chunk.count += 1;
                    if found.listed.len() + chunk.listed.len() < DUPLICATES_LISTED {
                        let item = item_of(&StoredItem::decode(record, &shape)?);
                        let key = partition_key_text(&key.partition_key);
                        chunk.listed.push(DuplicateRow { key, id, item });
                    }
                }
                work.pause().await;
            }
            Ok((chunk, round.covered().expect("the chunk is read to its end").max))
        };
        let read = read.await;
        if routing.has_moved(&read).await? {
            continue;
        }
        let (chunk, next) = read?;
        found.count += chunk.count;
        found.listed.extend(chunk.listed);
        rest.min = next;
    }
    Ok(found)
}

fn item_of(row: &StoredItem) -> String {
    match row.body().get("_id") {
        Some(RawValue::String(id)) => id.to_owned(),
        _ => String::new(),
    }
}
