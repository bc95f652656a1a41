//! Errors of commands: a code, words, and labels that drivers act on.

pub mod code;
mod code_names;
mod of_engine;

pub use code_names::{code_at, code_name, code_place, codes};

use std::borrow::Cow;
use std::fmt;

use shardlake_mql::{Document, Value};

/// A result whose error goes to the client.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// A failed command. Boxed, because it is rare and results are not.
#[derive(Clone)]
pub struct CommandError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: i32,
    message: String,
    labels: Vec<Cow<'static, str>>,
    /// The labels were given explicitly: the dispatcher neither adds nor removes any.
    has_given_labels: bool,
    /// Further fields of the reply.
    fields: Document,
}

/// Label: drivers repeat the write.
pub const RETRYABLE_WRITE: &str = "RetryableWriteError";
/// Whether drivers may repeat a write that failed with this code.
pub fn is_retryable_code(code: i32) -> bool {
    matches!(code, 6 | 7 | 89 | 91 | 134 | 189 | 262 | 9001 | 10107 | 11600 | 11602 | 13435 | 13436)
}

/// Label: drivers reopen the change stream after the last event.
pub const RESUMABLE_CHANGE_STREAM: &str = "ResumableChangeStreamError";
/// Whether drivers may resume a change stream that failed with this code.
pub fn is_resumable_code(code: i32) -> bool {
    is_retryable_code(code) || matches!(code, 63 | 133 | 150 | 234 | 13388)
}

/// Label: drivers repeat the transaction.
pub const TRANSIENT_TRANSACTION: &str = "TransientTransactionError";
/// Whether drivers may repeat the whole transaction after a command of it failed with this code.
pub fn is_transient_code(code: i32) -> bool {
    const LOCK_TIMEOUT: i32 = 24;
    const SNAPSHOT_UNAVAILABLE: i32 = 246;
    const PREPARED_IN_PROGRESS: i32 = 267;
    is_retryable_code(code)
        || matches!(
            code,
            code::WRITE_CONFLICT
                | code::NO_SUCH_TRANSACTION
                | LOCK_TIMEOUT
                | SNAPSHOT_UNAVAILABLE
                | PREPARED_IN_PROGRESS
        )
}

/// Whether this error ends the transaction. A statement that fails with it fails its command.
pub fn ends_transaction(code: i32) -> bool {
    is_transient_code(code)
        || matches!(
            code,
            code::TRANSACTION_TOO_LARGE
                | code::NOT_IN_TRANSACTION
                | code::MAX_TIME_EXPIRED
                | code::TOO_MANY_REQUESTS
                | code::INTERNAL_ERROR
                | code::UNKNOWN_ERROR
        )
}

impl CommandError {
    pub fn new(code: i32, message: impl Into<String>) -> CommandError {
        let (message, labels, fields) = (message.into(), Vec::new(), Document::new());
        CommandError(Box::new(Inner { code, message, labels, has_given_labels: false, fields }))
    }

    /// A feature of the reference that this server does not have. The message names it.
    pub fn not_supported(message: impl Into<String>) -> CommandError {
        CommandError::new(code::COMMAND_NOT_SUPPORTED, message)
    }

    pub fn with_label(mut self, label: &'static str) -> CommandError {
        if !self.0.labels.iter().any(|own| own == label) {
            self.0.labels.push(label.into());
        }
        self
    }

    /// Sets exactly these labels for every code.
    pub fn with_given_labels(mut self, labels: impl IntoIterator<Item = String>) -> CommandError {
        self.0.labels = labels.into_iter().map(Cow::Owned).collect();
        self.0.has_given_labels = true;
        self
    }

    pub fn has_given_labels(&self) -> bool {
        self.0.has_given_labels
    }

    pub fn without_label(mut self, label: &str) -> CommandError {
        self.0.labels.retain(|own| own != label);
        self
    }

    /// Adds a field to the reply, such as `keyPattern`.
    pub fn with_field(mut self, name: &str, value: impl Into<Value>) -> CommandError {
        self.0.fields.push(name, value.into());
        self
    }

    pub fn code(&self) -> i32 {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The reply of a command that failed as a whole.
    pub fn reply(&self) -> Document {
        let inner = &*self.0;
        let mut reply = Document::with_capacity(5 + inner.fields.len());
        reply.push("ok", Value::Double(0.0));
        reply.push("errmsg", Value::string(&inner.message));
        reply.push("code", Value::Int(inner.code));
        reply.push("codeName", Value::string(code_name(inner.code)));
        inner.fields.iter().for_each(|(name, value)| reply.push(name.clone(), value.clone()));
        if !inner.labels.is_empty() {
            let labels = inner.labels.iter().map(Value::string);
            reply.push("errorLabels", Value::array(labels.collect()));
        }
        reply
    }

    /// The field `writeConcernError` of a completed write whose concern is not satisfied.
    pub fn write_concern_error(&self) -> Document {
        let mut field = Document::with_capacity(3);
        field.push("code", Value::Int(self.code()));
        field.push("codeName", Value::string(code_name(self.code())));
        field.push("errmsg", Value::string(self.message()));
        field
    }

    /// The entry in `writeErrors` of a statement that failed.
    pub fn write_error(&self, index: usize) -> Document {
        let inner = &*self.0;
        let mut entry = Document::with_capacity(3 + inner.fields.len());
        entry.push("index", Value::Int(index as i32));
        entry.push("code", Value::Int(inner.code));
        entry.push("errmsg", Value::string(&inner.message));
        inner.fields.iter().for_each(|(name, value)| entry.push(name.clone(), value.clone()));
        entry
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.message(), code_name(self.code()))
    }
}

impl fmt::Debug for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl std::error::Error for CommandError {}

impl From<shardlake_mql::Error> for CommandError {
    fn from(error: shardlake_mql::Error) -> CommandError {
        CommandError::new(error.code(), error.message())
    }
}

/// An error with a code and a text like `format!`.
macro_rules! error {
    ($code:expr, $($words:tt)+) => {
        $crate::errors::CommandError::new($code, format!($($words)+))
    };
}

/// Leaves the function with such an error.
macro_rules! fail {
    ($code:expr, $($words:tt)+) => {
        return Err($crate::errors::CommandError::new($code, format!($($words)+)))
    };
}

pub(crate) use {error, fail};
