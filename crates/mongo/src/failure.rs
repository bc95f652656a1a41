//! Failures in MongoDB's codes (spec mongo.md §7).

use shardlake_model::{Error, ErrorKind};
use shardlake_mql::write::Refusal;
use shardlake_mql::{Document, Value};

pub type Result<T, F = Failure> = std::result::Result<T, F>;

/// An error as a command answers it.
#[derive(Debug, Clone)]
pub struct Failure {
    pub code: i32,
    pub message: String,
    /// Members besides code and message, such as `errInfo` or `keyPattern`.
    pub details: Document,
    /// Trying the same write again may succeed, and does no harm.
    pub is_retryable: bool,
    /// The change that the statement makes to a document is at fault.
    pub is_of_document: bool,
}

/// Whether a code refuses a whole command, whichever of its statements met the refusal: the server
/// is at fault. Drivers retry failed commands, and never statements.
pub fn refuses_command(code: i32) -> bool {
    matches!(code, 1 | 6 | 8 | 50 | 91 | 11600)
}

/// The budget of a collection is spent.
pub(crate) const TOO_MANY_REQUESTS: i32 = 16500;

impl Failure {
    pub fn new(code: i32, message: impl Into<String>) -> Failure {
        let (message, details) = (message.into(), Document::new());
        Failure { code, message, details, is_retryable: false, is_of_document: false }
    }

    pub(crate) fn of_document(self) -> Failure {
        Failure { is_of_document: true, ..self }
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Failure {
        self.details.push(name, value.into());
        self
    }

    /// The name that belongs to the code, as far as the language knows it.
    pub fn code_name(&self) -> String {
        shardlake_mql::Error::new(self.code, "").code_name()
    }
}

impl From<shardlake_mql::Error> for Failure {
    fn from(error: shardlake_mql::Error) -> Failure {
        Failure::new(error.code(), error.message())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure { details: refusal.details, ..Failure::from(refusal.error) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if let Some(code) = error.code() {
            let details = Document::from_bytes(error.details()).unwrap_or_default();
            return Failure { details, ..Failure::new(code, error.message()) };
        }
        let code = match error.kind() {
            ErrorKind::BadRequest | ErrorKind::CrossPartitionQuery => 2,
            ErrorKind::PartitionKeyMismatch => 66,
            ErrorKind::StaleContainer | ErrorKind::OwnerNotFound | ErrorKind::NotFound => 26,
            ErrorKind::Unauthorized => 18,
            ErrorKind::Forbidden => 13,
            ErrorKind::LogicalPartitionFull | ErrorKind::PartitionFull | ErrorKind::AccountFull => 12501,
            ErrorKind::SessionNotAvailable | ErrorKind::Timeout => 50,
            ErrorKind::MethodNotAllowed => 20,
            ErrorKind::Conflict => 11000,
            ErrorKind::InProgress => 117,
            ErrorKind::PartitionGone => 6,
            ErrorKind::PreconditionFailed => 112,
            ErrorKind::TooLarge => 10334,
            ErrorKind::FailedDependency => 96,
            ErrorKind::TooManyRequests => TOO_MANY_REQUESTS,
            ErrorKind::Unsupported => 238,
            ErrorKind::Unavailable => 11600,
            ErrorKind::Corrupt => 8,
            ErrorKind::Internal => 1,
        };
        let is_retryable = matches!(error.kind(), ErrorKind::PartitionGone | ErrorKind::Unavailable);
        let failure = match error.kind() {
            ErrorKind::TooManyRequests => {
                let wait = error.retry_after_ms().unwrap_or(0);
                let words = format!(
                    "Error=16500, RetryAfterMs={wait}, Details='Request rate is large. {}'",
                    error.message()
                );
                Failure::new(code, words).with("retryAfterMs", Value::Long(wait as i64))
            }
            _ => Failure::new(code, error.message()),
        };
        Failure { is_retryable, ..failure }
    }
}
