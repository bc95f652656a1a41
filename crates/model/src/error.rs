//! Errors, classified by the caller's remedy.
//!
//! Inside a crate errors describe the event; across crates they are an [`Error`] whose [`ErrorKind`] is
//! coarse and prescriptive. Each gateway maps the kinds to its own status numbers in one exhaustive `match`.

use serde::{Deserialize, Serialize};
use std::fmt;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The caller's remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The request is malformed or breaks a documented rule: fix the input.
    BadRequest,
    /// The partition key given does not match the item's: fix the key.
    PartitionKeyMismatch,
    /// The client addressed an earlier container of the same name: refresh the cached container, then retry.
    StaleContainer,
    /// The query needs a merge across partitions that the caller must do with a query plan.
    CrossPartitionQuery,
    /// No valid credentials: authenticate.
    Unauthorized,
    /// Credentials are valid but do not allow this: use others.
    Forbidden,
    /// The logical partition has reached its size: delete from it, or choose a partition key with more values.
    LogicalPartitionFull,
    /// The physical partition has reached its maximum size: delete from it, or have it split.
    PartitionFull,
    /// The account has as many databases and containers as the server allows: delete some, or raise the limit.
    AccountFull,
    /// The addressed resource does not exist.
    NotFound,
    /// The database or container that should hold the resource does not exist.
    OwnerNotFound,
    /// The replica has not yet reached the session's position: retry.
    SessionNotAvailable,
    /// The verb is not defined on this resource.
    MethodNotAllowed,
    /// The request ran out of time; it changed nothing, unless the reply reports a change: retry.
    Timeout,
    /// A resource with this id, or a unique key value, exists already.
    Conflict,
    /// Another change of the same resource is in progress: wait for its end, or abort it, then retry.
    InProgress,
    /// The partition key range has ended (split, merged or moved): refresh the routing map, then retry.
    PartitionGone,
    /// An `If-Match`/`If-None-Match`/patch condition does not hold: read again.
    PreconditionFailed,
    /// The item, request or response exceeds a size limit: send less.
    TooLarge,
    /// Another operation of the same transactional batch failed.
    FailedDependency,
    /// The request budget is spent: wait `retry_after_ms`, then retry.
    TooManyRequests,
    /// A real feature of the reference that this server does not have: do without it.
    Unsupported,
    /// The server is overloaded, draining, or its storage refuses writes: retry later or call the operator.
    Unavailable,
    /// Stored bytes contradict themselves: call the operator, run `verify`.
    Corrupt,
    /// A defect of this program.
    Internal,
}

impl ErrorKind {
    /// Whether the server refuses a whole request with this kind, whichever operation of it met the
    /// refusal. Other kinds answer one operation.
    pub fn refuses_request(self) -> bool {
        match self {
            ErrorKind::StaleContainer
            | ErrorKind::Unauthorized
            | ErrorKind::OwnerNotFound
            | ErrorKind::SessionNotAvailable
            | ErrorKind::Timeout
            | ErrorKind::PartitionGone
            | ErrorKind::TooManyRequests
            | ErrorKind::Unavailable
            | ErrorKind::Corrupt
            | ErrorKind::Internal => true,
            ErrorKind::BadRequest
            | ErrorKind::PartitionKeyMismatch
            | ErrorKind::CrossPartitionQuery
            | ErrorKind::Forbidden
            | ErrorKind::LogicalPartitionFull
            | ErrorKind::PartitionFull
            | ErrorKind::AccountFull
            | ErrorKind::NotFound
            | ErrorKind::MethodNotAllowed
            | ErrorKind::Conflict
            | ErrorKind::InProgress
            | ErrorKind::PreconditionFailed
            | ErrorKind::TooLarge
            | ErrorKind::FailedDependency
            | ErrorKind::Unsupported => false,
        }
    }
}

/// Data of a reply about the partition that served it; errors carry it too, since clients read tokens from
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReplyMeta {
    /// Request charge in hundredths of a request unit, so that sums are exact.
    pub charge_centi: u64,
    /// The partition's durable LSN when the request was served.
    pub lsn: u64,
    /// LSN of the item's last write; 0 if the reply is not about a single item.
    pub item_lsn: u64,
    /// Id of the partition key range that served the request (`None` for metadata).
    pub range_id: Option<u32>,
    /// Version of session tokens: distinguishes the container from an earlier one of the same name.
    pub session_version: i64,
}

/// An error that crosses a crate boundary.
///
/// The message is lower-case, without a full stop, quotes user identifiers, and gives the remedy where it is
/// not obvious.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    meta: ReplyMeta,
    retry_after_ms: Option<u64>,
    substatus: Option<u32>,
    code: Option<i32>,
    details: Vec<u8>,
    document: Option<Vec<u8>>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            meta: ReplyMeta::default(),
            retry_after_ms: None,
            substatus: None,
            code: None,
            details: Vec::new(),
            document: None,
            source: None,
        }))
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::BadRequest, message)
    }

    /// `feature` is named to the user: "stored procedures are not supported yet".
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Unsupported, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message)
    }

    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub fn with_meta(mut self, meta: ReplyMeta) -> Self {
        self.0.meta = meta;
        self
    }

    pub fn with_retry_after_ms(mut self, milliseconds: u64) -> Self {
        self.0.retry_after_ms = Some(milliseconds);
        self
    }

    /// A number more specific than the kind, from outside the server: the number of a script's error.
    pub fn with_substatus(mut self, substatus: u32) -> Self {
        self.0.substatus = Some(substatus);
        self
    }

    /// The code of the error in MongoDB's protocol, and the members that its answer has besides code and message, as BSON.
    pub fn with_code(mut self, code: i32, details: Vec<u8>) -> Self {
        (self.0.code, self.0.details) = (Some(code), details);
        self
    }

    /// The body that was refused, for a message that quotes its values.
    pub fn with_document(mut self, body: &[u8]) -> Self {
        self.0.document = Some(body.to_vec());
        self
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn meta(&self) -> &ReplyMeta {
        &self.0.meta
    }

    pub fn meta_mut(&mut self) -> &mut ReplyMeta {
        &mut self.0.meta
    }

    pub fn substatus(&self) -> Option<u32> {
        self.0.substatus
    }

    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// BSON; empty without details.
    pub fn details(&self) -> &[u8] {
        &self.0.details
    }

    pub fn document(&self) -> Option<&[u8]> {
        self.0.document.as_deref()
    }

    pub fn retry_after_ms(&self) -> Option<u64> {
        self.0.retry_after_ms
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
