//! The partition key that a request names.

use shardlake_account::key_misfit;
use shardlake_document::parse_partition_key;
use shardlake_model::{PartitionKey, Result};

/// A partition key as clients write it: the text of a JSON array.
pub(crate) fn key_of_text(text: &str) -> Result<PartitionKey> {
    parse_partition_key(text).map_err(|error| key_misfit(&error))
}
