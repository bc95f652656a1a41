//! What a partition is asked to do, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardlake_document::{Body, PatchOperation};
use shardlake_index::TermSet;
use shardlake_model::{ConsistencyLevel, Error, Preconditions, ReplyMeta};
pub use shardlake_routing::LogicalKey;
use shardlake_sql::Condition;
use shardlake_stdx::{Guid, Timestamp};

use crate::index::Foreseen;
use crate::item::StoredItem;

/// A body made ready before the partition's sequencer is taken: parsed, rendered and analysed.
#[derive(Debug, Clone)]
pub struct PreparedBody {
    pub id: String,
    pub body: Body,
    /// The body's members as JSON text without the braces.
    pub members: Bytes,
    pub terms: TermSet,
    /// Of a heavy one.
    pub(crate) foreseen: Option<Arc<Foreseen>>,
    pub ttl_seconds: Option<i32>,
}

/// One item operation within a logical partition.
#[derive(Debug)]
pub enum Operation {
    Create {
        item: PreparedBody,
    },
    Upsert {
        item: PreparedBody,
        preconditions: Preconditions,
    },
    /// The new body may carry another id: a rename within the logical partition.
    Replace {
        id: String,
        item: PreparedBody,
        preconditions: Preconditions,
    },
    Delete {
        id: String,
        preconditions: Preconditions,
    },
    Patch {
        id: String,
        operations: Vec<PatchOperation>,
        condition: Option<Condition>,
        preconditions: Preconditions,
    },
    Read {
        id: String,
        preconditions: Preconditions,
    },
}

impl Operation {
    /// The body that it writes.
    pub(crate) fn item(&self) -> Option<&PreparedBody> {
        match self {
            Operation::Create { item } | Operation::Upsert { item, .. } | Operation::Replace { item, .. } => {
                Some(item)
            }
            Operation::Delete { .. } | Operation::Patch { .. } | Operation::Read { .. } => None,
        }
    }

    pub(crate) fn is_heavy(&self) -> bool {
        self.item().is_some_and(|item| item.foreseen.is_some())
    }

    /// The id that the operation names; a replace may give the item another one.
    pub fn id(&self) -> &str {
        match self {
            Operation::Create { item } | Operation::Upsert { item, .. } => &item.id,
            Operation::Replace { id, .. }
            | Operation::Delete { id, .. }
            | Operation::Patch { id, .. }
            | Operation::Read { id, .. } => id,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Replaced,
    Patched,
    Deleted,
    Read,
    /// A read whose `If-None-Match` names the current etag: no body.
    NotModified,
}

/// A successful operation.
#[derive(Debug, Clone)]
pub struct ItemReply {
    pub outcome: Outcome,
    /// The item after the operation; `None` for a delete.
    pub item: Option<StoredItem>,
    pub meta: ReplyMeta,
}

/// A transactional batch: all replies, or which operation failed and why. Nothing was changed in the latter case.
#[derive(Debug)]
pub struct BatchReply {
    pub outcome: Result<Vec<ItemReply>, BatchFailure>,
    pub meta: ReplyMeta,
}

#[derive(Debug)]
pub struct BatchFailure {
    pub index: usize,
    pub error: Error,
}

/// Time, identifiers and reading conditions that arrive with a command, so that planning it is a pure function.
#[derive(Debug, Clone)]
pub struct CommandContext {
    pub now: Timestamp,
    pub consistency: ConsistencyLevel,
    /// One etag per operation that may write.
    pub etags: Vec<Guid>,
    /// How long a write waits while a transaction holds its logical partition.
    pub patience: Duration,
}
