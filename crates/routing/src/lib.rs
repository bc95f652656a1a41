//! Routing of items: partition key hashing, ranges of the hash space, and maps from hash to partition. Pure.
//!
//! | file | contents |
//! |---|---|
//! | `epk.rs` | effective partition keys, versions 1, 2 and hierarchical |
//! | `logical.rs` | the key of a logical partition |
//! | `range.rs` | spans of the hash space, prefixes, and the even cut of a new container |
//! | `scale.rs` | a range as a scale of numbers, for shares of its load |
//! | `map.rs` | a gap-free cover of the hash space by partitions |
//! | `placement.rs` | the shard for a new partition |
//! | `header.rs` | the JSON array in which clients send a partition key |

mod epk;
mod logical;
mod map;
mod placement;
mod range;
mod scale;

pub use epk::{Epk, effective_partition_key};
pub use logical::LogicalKey;
pub use map::{MapError, PartitionMap};
pub use placement::{ShardLoad, place, place_together};
pub use range::{KeyRange, RangeError, initial_ranges, midpoint, prefix_range, width};
pub use scale::EpkScale;

#[cfg(test)]
mod tests {
    use shardlake_model::PartitionKeyDefinition;

    /// One definition for each way to hash.
    pub fn definitions() -> [PartitionKeyDefinition; 3] {
        let v2 = PartitionKeyDefinition::hash("/a");
        [
            PartitionKeyDefinition { version_sent: Some(1), ..v2.clone() },
            v2,
            PartitionKeyDefinition::multi_hash(&["/a", "/b"]),
        ]
    }
}
