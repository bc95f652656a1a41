//! Writes of a function to one partition, as data.

use serde::{Deserialize, Serialize};
use shardlake_document::PatchOperation;
use shardlake_model::{ErrorKind, Preconditions, ReplyMeta};
use shardlake_routing::{KeyRange, LogicalKey};
use shardlake_stdx::Guid;

/// Writes of a function to one partition for the changes of a span of its source up to an LSN.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionBatch {
    /// Number of the function, by which its own commits are recognised in the log.
    pub function: u32,
    /// Span of the source's hash space.
    pub span: KeyRange,
    /// LSN of the source's last change that the writes are for.
    pub upto: u64,
    /// In the order of the function's calls.
    pub writes: Vec<FunctionWrite>,
}

impl FunctionBatch {
    pub const WRITES_MAX: usize = 1000;
    /// Of bodies; a single write may have more.
    pub const BYTES_MAX: usize = 4 << 20;

    pub fn size_bytes(&self) -> usize {
        self.writes.iter().map(FunctionWrite::size_bytes).sum()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionWrite {
    pub key: LogicalKey,
    /// Of the item after the write.
    pub etag: Guid,
    pub operation: FunctionOperation,
}

/// A write of one item; bodies as they are stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FunctionOperation {
    Create { body: Vec<u8> },
    Upsert { body: Vec<u8>, preconditions: Preconditions },
    Replace { id: String, body: Vec<u8>, preconditions: Preconditions },
    Patch { id: String, operations: Vec<PatchOperation>, preconditions: Preconditions },
    Delete { id: String, preconditions: Preconditions },
}

impl FunctionWrite {
    pub fn size_bytes(&self) -> usize {
        match &self.operation {
            FunctionOperation::Create { body }
            | FunctionOperation::Upsert { body, .. }
            | FunctionOperation::Replace { body, .. } => body.len(),
            FunctionOperation::Patch { .. } | FunctionOperation::Delete { .. } => 0,
        }
    }
}

/// Result of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionReply {
    pub outcome: FunctionOutcome,
    pub meta: ReplyMeta,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FunctionOutcome {
    /// All writes are durable; of these, some were so by an earlier batch and were left out.
    Applied { left_out: u32 },
    /// Nothing was written.
    Refused(RefusedWrite),
}

/// The first write of a batch that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedWrite {
    /// Its place in the batch.
    pub place: u32,
    pub kind: ErrorKind,
    pub reason: String,
}
