//! The key of a logical partition.

use serde::{Deserialize, Serialize};
use shardlake_model::PartitionKey;

use crate::Epk;

/// A logical partition: its key and where that hashes to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogicalKey {
    pub epk: Epk,
    pub partition_key: PartitionKey,
}
