//! Operations on a partition, and their replies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shardlake_document::{Body, PatchOperation, RawDocument, json_size, write_members};
use shardlake_model::{ConsistencyLevel, Error, Preconditions, ReplyMeta, RequestContext, Result};
use shardlake_mql::write::{ChangeOutcome, DocumentChange};
pub use shardlake_routing::LogicalKey;
use shardlake_sql::Condition;
use shardlake_stdx::{Clock, Guid, Timestamp};

use crate::body_terms::BodyTerms;
use crate::cpu_pool::HEAVY_BYTES;
use crate::deferred::Deferred;
use crate::item::StoredItem;
use crate::shape::ContainerSchema;
use crate::statements::StatementNote;

/// A body made ready before the partition's sequencer is taken: parsed, rendered and analysed.
#[derive(Debug, Clone)]
pub struct PreparedBody {
    pub id: String,
    pub body: Body,
    pub members: MembersText,
    pub(crate) terms: Arc<BodyTerms>,
    pub ttl_seconds: Option<i32>,
    /// It came from a change of parts of the version before.
    pub(crate) is_altered: bool,
}

/// A body's members as JSON text without the braces.
#[derive(Debug, Clone)]
pub struct MembersText {
    pub size_bytes: usize,
    /// `None` where the clients of the container read BSON: then the length alone is needed, for limits and charges.
    pub text: Option<Bytes>,
}

impl MembersText {
    pub(crate) fn of(body: RawDocument<'_>, shape: &ContainerSchema) -> MembersText {
        if shape.is_collection {
            return MembersText { size_bytes: json_size(body) - "{}".len(), text: None };
        }
        // Text is seldom longer than BSON, whose values have lengths and whose names have kinds.
        let mut text = Vec::with_capacity(body.as_bytes().len());
        write_members(body, &mut text);
        MembersText { size_bytes: text.len(), text: Some(text.into()) }
    }
}

impl PreparedBody {
    /// Refuses a body with too many terms.
    pub(crate) fn new(
        id: String,
        body: Body,
        members: MembersText,
        ttl_seconds: Option<i32>,
        shape: &ContainerSchema,
    ) -> Result<PreparedBody> {
        let terms = Arc::new(BodyTerms::of(body.raw(), shape));
        terms.check(&shape.limits)?;
        Ok(PreparedBody { id, body, members, terms, ttl_seconds, is_altered: false })
    }

    /// Whether work on all of it is too much for a thread that answers requests.
    pub(crate) fn is_heavy(&self) -> bool {
        self.members.size_bytes > HEAVY_BYTES
    }
}

/// One item operation within a logical partition.
#[derive(Debug, Clone)]
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
    /// A change that computes the new item from the existing one.
    Change {
        id: String,
        change: Arc<DocumentChange>,
    },
}

impl Operation {
    /// The body that it writes.
    pub(crate) fn item(&self) -> Option<&PreparedBody> {
        match self {
            Operation::Create { item } | Operation::Upsert { item, .. } | Operation::Replace { item, .. } => {
                Some(item)
            }
            Operation::Delete { .. }
            | Operation::Patch { .. }
            | Operation::Read { .. }
            | Operation::Change { .. } => None,
        }
    }

    /// The id that the operation names; a replace may give the item another one.
    pub fn id(&self) -> &str {
        match self {
            Operation::Create { item } | Operation::Upsert { item, .. } => &item.id,
            Operation::Replace { id, .. }
            | Operation::Delete { id, .. }
            | Operation::Patch { id, .. }
            | Operation::Read { id, .. }
            | Operation::Change { id, .. } => id,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The item after the operation; `None` for a delete, and where it is not wanted.
    pub item: Option<StoredItem>,
    /// Etag of that item.
    pub etag: Option<Guid>,
    /// The effect of a change of a document that matched.
    pub change: Option<Box<ChangeOutcome>>,
    pub meta: ReplyMeta,
}

impl ItemReply {
    pub fn of(outcome: Outcome, item: Option<StoredItem>, meta: ReplyMeta) -> ItemReply {
        let etag = item.as_ref().map(StoredItem::etag);
        ItemReply { outcome, item, etag, change: None, meta }
    }
}

/// A transactional batch: all replies, or which operation failed and why. Nothing was changed in the latter case.
#[derive(Debug)]
pub struct BatchReply {
    pub outcome: std::result::Result<Vec<ItemReply>, BatchFailure>,
    pub meta: ReplyMeta,
}

/// The operation that failed a batch.
#[derive(Debug)]
#[non_exhaustive]
pub struct BatchFailure {
    pub index: usize,
    pub error: Error,
    /// The charges of the operations that were done until then, from the first one on. They were undone and are charged.
    pub done_centi: Vec<u64>,
}

impl BatchFailure {
    /// The failure of one operation. A refusal of the whole request comes back as the error: no
    /// operation is at fault.
    pub fn of(index: usize, error: Error) -> Result<BatchFailure> {
        if error.kind().refuses_request() {
            return Err(error);
        }
        Ok(BatchFailure { index, error, done_centi: Vec::new() })
    }

    /// The charge of the operation at a place. All of them are the charge of the batch.
    pub fn charge_centi(&self, index: usize) -> u64 {
        let done = self.done_centi.get(index).copied().unwrap_or_default();
        let failed = if index == self.index { self.error.meta().charge_centi } else { 0 };
        done + failed
    }
}

/// How a commit is kept and waited for.
#[derive(Debug, Clone, Default)]
pub struct CommitOptions {
    /// The answer of retryable statements, which it stores with their writes.
    pub note: Option<StatementNote>,
    /// Where its acknowledgement is waited for later; `None`: its writer waits at once.
    pub deferred: Option<Arc<Deferred>>,
}

/// Time, identifiers and reading conditions that arrive with a command, so that planning it is a pure function.
#[derive(Debug, Clone)]
pub struct CommandContext {
    pub now: Timestamp,
    pub consistency: ConsistencyLevel,
    /// One etag per operation that may write.
    pub etags: Vec<Guid>,
    /// Places of patches whose items the client does not want.
    pub unwanted: Vec<usize>,
    /// How long a write waits while a transaction holds its logical partition.
    pub patience: Duration,
    pub commit: CommitOptions,
}

impl CommandContext {
    /// For a request, without identifiers for writes.
    pub fn of(ctx: &RequestContext, clock: &Clock) -> CommandContext {
        CommandContext {
            now: ctx.now,
            consistency: ctx.consistency,
            etags: Vec::new(),
            unwanted: Vec::new(),
            patience: ctx.deadline.saturating_sub(clock.elapsed()),
            commit: CommitOptions::default(),
        }
    }
}
