//! One logical partition as an operator sees it: its place, its size, and its share of the load.

use shardlake_document::partition_key_text;
use shardlake_model::{PartitionKey, Result};
use shardlake_partition::LogicalSize;
use shardlake_router::{ContainerHandle, checked_key, logical, partition_of};

use crate::Upkeep;

#[derive(Debug, Clone)]
pub struct KeyReport {
    /// A JSON array, as in the partition key header.
    pub key: String,
    /// Its hash, hexadecimal.
    pub epk: String,
    pub range_id: u32,
    pub shard: u16,
    pub size: LogicalSize,
    /// Where it is among the busiest of its partition.
    pub load: Option<KeyHeat>,
}

/// Heat of the last five to ten minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyHeat {
    /// At most this, and at least `error_ru` less.
    pub ru: f64,
    pub error_ru: f64,
    /// Least share of the partition's request units.
    pub share: f64,
    pub window_seconds: u32,
}

impl Upkeep {
    pub async fn key_report(&self, container: &ContainerHandle, key: &PartitionKey) -> Result<KeyReport> {
        let mut routing = self.router().routing_of(self.router().current_entry(&container.entry)?);
        loop {
            let entry = routing.entry.clone();
            let key = checked_key(&entry, key)?.into_owned();
            if key.0.len() != entry.shape.key_paths.len() {
                return Err(shardlake_model::Error::bad_request(
                    "a prefix of a hierarchical key may lie in several partitions: name all of its levels",
                ));
            }
            let logical = logical(&entry, key);
            let partition = partition_of(&entry, &logical).clone();
            let outcome = partition.hosted().partition().logical_size(&logical).await;
            if routing.has_moved(&outcome).await? {
                continue;
            }
            let definition = &entry.record.container.definition.partition_key;
            let now = self.0.router.clock().elapsed();
            let load = partition.hosted().partition().heat(definition).key_heat(now, &logical);
            let range = entry.record.ranges.iter().find(|range| range.range_id == partition.range_id());
            return Ok(KeyReport {
                key: partition_key_text(&logical.partition_key),
                epk: logical.epk.to_hex(),
                range_id: partition.range_id(),
                shard: range.map_or(0, |range| range.shard),
                size: outcome?,
                load: load.map(|(hot, window_seconds)| KeyHeat {
                    ru: hot.ru,
                    error_ru: hot.error_ru,
                    share: hot.share,
                    window_seconds,
                }),
            });
        }
    }
}
