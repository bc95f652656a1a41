//! Item commands of front ends: plain data, with bodies and keys as values.

use std::borrow::Cow;
use std::sync::Arc;

use shardlake_document::{Body, ItemName, PatchOperation};
use shardlake_model::{PartitionKey, Preconditions};
use shardlake_partition::{CommitOptions, DocumentChange, ItemReply};
use shardlake_sql::Condition;

/// A partial update.
#[derive(Debug, Clone)]
pub struct Patch {
    pub operations: Vec<PatchOperation>,
    /// The patch applies only where it holds.
    pub condition: Option<Condition>,
}

/// A change of one item.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a command is made once and moved a few times")]
pub enum ItemWrite {
    Create {
        body: Body,
    },
    Upsert {
        body: Body,
        preconditions: Preconditions,
    },
    /// The new body may carry another id: a rename within the logical partition.
    Replace {
        item: ItemName,
        body: Body,
        preconditions: Preconditions,
    },
    Patch {
        item: ItemName,
        patch: Patch,
        preconditions: Preconditions,
    },
    Delete {
        item: ItemName,
        preconditions: Preconditions,
    },
    /// Applies a change to the current item; it keeps its id and its partition key.
    Change {
        item: ItemName,
        change: Arc<DocumentChange>,
    },
}

#[derive(Debug, Clone)]
pub struct ItemRead {
    pub item: ItemName,
    pub preconditions: Preconditions,
}

/// One of several operations of a request.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a command is made once and moved a few times")]
pub enum ItemOperation {
    Write(ItemWrite),
    Read(ItemRead),
}

/// A single write.
#[derive(Debug, Clone)]
pub struct WriteCommand {
    /// May be absent if there is a body, which contains the key; if both are present they must agree.
    pub key: Option<PartitionKey>,
    pub write: ItemWrite,
    /// Ignored in a transaction, which commits later.
    pub commit: CommitOptions,
}

/// A single read.
#[derive(Debug, Clone)]
pub struct ReadCommand {
    pub key: Option<PartitionKey>,
    pub read: ItemRead,
}

/// An operation with a key of its own; in a transactional batch the key must be the batch's.
#[derive(Debug, Clone)]
pub struct KeyedOperation {
    pub key: Option<PartitionKey>,
    pub operation: ItemOperation,
    /// Whether the client wants the item in the answer.
    pub content: bool,
}

/// The triggers that a write names, by id. Triggers run only on request.
#[derive(Debug, Clone, Default)]
pub struct Triggers<'a> {
    pub pre: &'a [String],
    pub post: &'a [String],
    /// The body as the client wrote it in JSON, for scripts; without it the body is rendered for them.
    pub text: Option<Cow<'a, str>>,
}

/// The result of a write.
#[derive(Debug, Clone)]
pub struct WriteReply {
    pub reply: ItemReply,
    /// JSON text, where a post-trigger has set another body for the response.
    pub body: Option<String>,
}

impl ItemWrite {
    /// The body that it writes.
    pub fn body(&self) -> Option<&Body> {
        match self {
            ItemWrite::Create { body } | ItemWrite::Upsert { body, .. } | ItemWrite::Replace { body, .. } => {
                Some(body)
            }
            ItemWrite::Patch { .. } | ItemWrite::Delete { .. } | ItemWrite::Change { .. } => None,
        }
    }
}

impl KeyedOperation {
    /// Whether the answer may have an item that the request does not have.
    pub fn answers_item(&self) -> bool {
        self.operation.is_read() || self.operation.is_patch() && self.content
    }
}

impl ItemOperation {
    pub fn is_read(&self) -> bool {
        matches!(self, ItemOperation::Read(_))
    }

    pub fn is_patch(&self) -> bool {
        matches!(self, ItemOperation::Write(ItemWrite::Patch { .. }))
    }

    /// The body that it writes.
    pub fn body(&self) -> Option<&Body> {
        match self {
            ItemOperation::Write(write) => write.body(),
            ItemOperation::Read(_) => None,
        }
    }
}

impl WriteCommand {
    pub fn of(key: Option<PartitionKey>, write: ItemWrite) -> WriteCommand {
        WriteCommand { key, write, commit: CommitOptions::default() }
    }

    /// Creates an item; the body contains the key.
    pub fn create(body: Body) -> WriteCommand {
        WriteCommand::of(None, ItemWrite::Create { body })
    }

    /// Upserts an item without preconditions; the body contains the key.
    pub fn upsert(body: Body) -> WriteCommand {
        WriteCommand::of(None, ItemWrite::Upsert { body, preconditions: Preconditions::default() })
    }
}
