//! Rows of a copy to be written and ended by one commit, as data.

use serde::{Deserialize, Serialize};
use shardlake_model::{ErrorKind, ReplyMeta};
use shardlake_routing::LogicalKey;

use super::stamp::RowStamp;
use crate::keys::{self, HEADER, PartitionUid};

/// Rows for one partition of a copy. Each row is named once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CopyBatch {
    /// Number of the copy.
    pub copy: u32,
    pub rows: Vec<CopyRow>,
}

impl CopyBatch {
    pub const ROWS_MAX: usize = 256;
    /// Of bodies; a single row may have more.
    pub const BYTES_MAX: usize = 1 << 20;

    pub fn size_bytes(&self) -> usize {
        self.rows.iter().map(CopyRow::size_bytes).sum()
    }
}

/// Bytes that name a logical partition: equal for equal keys.
pub fn logical_name(key: &LogicalKey) -> Vec<u8> {
    keys::logical_prefix(PartitionUid(0), key).split_off(HEADER)
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CopyRow {
    pub key: LogicalKey,
    pub id: String,
    pub stamp: RowStamp,
    /// As a body is stored; `None` where the row ends.
    pub body: Option<Vec<u8>>,
}

impl CopyRow {
    pub fn size_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, Vec::len)
    }
}

/// Result of applying rows, all of them durable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CopyReply {
    pub written: u32,
    pub deleted: u32,
    /// Rows that were as new already, or gone.
    pub unchanged: u32,
    /// Rows that no repetition can write. All others are applied.
    pub refused: Vec<RefusedRow>,
    pub meta: ReplyMeta,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRow {
    /// Its place in the batch.
    pub place: u32,
    pub kind: ErrorKind,
    pub reason: String,
}
