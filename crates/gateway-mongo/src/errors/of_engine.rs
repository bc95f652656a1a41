//! Conversion of the engine's errors to those of this protocol, in one exhaustive table.

use shardlake_model::{Error, ErrorKind};
use shardlake_mql::Value;

use super::{CommandError, RETRYABLE_WRITE, code};

impl From<Error> for CommandError {
    fn from(error: Error) -> CommandError {
        let kind = error.kind();
        if kind == ErrorKind::TooManyRequests {
            return too_many_requests(&error);
        }
        let told = CommandError::new(code_of(kind), error.message());
        match kind {
            // Either nothing was written, or the outcome is unknown.
            ErrorKind::Timeout | ErrorKind::PartitionGone | ErrorKind::Unavailable => {
                told.with_label(RETRYABLE_WRITE)
            }
            _ => told,
        }
    }
}

fn code_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::BadRequest => code::BAD_VALUE,
        ErrorKind::PartitionKeyMismatch => code::IMMUTABLE_FIELD,
        ErrorKind::StaleContainer | ErrorKind::OwnerNotFound | ErrorKind::NotFound => {
            code::NAMESPACE_NOT_FOUND
        }
        ErrorKind::CrossPartitionQuery => code::INTERNAL_ERROR,
        ErrorKind::Unauthorized => code::AUTHENTICATION_FAILED,
        ErrorKind::Forbidden => code::UNAUTHORIZED,
        ErrorKind::LogicalPartitionFull | ErrorKind::PartitionFull | ErrorKind::AccountFull => {
            code::QUOTA_EXCEEDED
        }
        ErrorKind::SessionNotAvailable | ErrorKind::Timeout => code::MAX_TIME_EXPIRED,
        ErrorKind::MethodNotAllowed => code::ILLEGAL_OPERATION,
        ErrorKind::Conflict => code::DUPLICATE_KEY,
        ErrorKind::InProgress => code::CONFLICTING_OPERATION,
        ErrorKind::PartitionGone => code::HOST_UNREACHABLE,
        ErrorKind::PreconditionFailed => code::WRITE_CONFLICT,
        ErrorKind::TooLarge => code::OBJECT_TOO_LARGE,
        ErrorKind::FailedDependency => code::INTERNAL_ERROR,
        ErrorKind::TooManyRequests => code::TOO_MANY_REQUESTS,
        ErrorKind::Unsupported => code::COMMAND_NOT_SUPPORTED,
        ErrorKind::Unavailable => code::INTERRUPTED_AT_SHUTDOWN,
        ErrorKind::Corrupt => code::UNKNOWN_ERROR,
        ErrorKind::Internal => code::INTERNAL_ERROR,
    }
}

/// Applications parse this message.
fn too_many_requests(error: &Error) -> CommandError {
    let wait = error.retry_after_ms().unwrap_or(1);
    let message = format!("Error=16500, RetryAfterMs={wait}, Details='{}'", error.message());
    let wait = Value::Int(i32::try_from(wait).unwrap_or(i32::MAX));
    CommandError::new(code::TOO_MANY_REQUESTS, message).with_field("retryAfterMs", wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_says_how_long_to_wait() {
        let error = Error::new(ErrorKind::TooManyRequests, "too many").with_retry_after_ms(8);
        let told = CommandError::from(error);
        assert_eq!(told.code(), 16500);
        assert!(told.message().contains("RetryAfterMs=8,"), "{told}");
        assert_eq!(told.reply().value("retryAfterMs").to_i64_exact(), Some(8));
        assert!(!told.reply().has("errorLabels"), "drivers would repeat at once");
    }
}
