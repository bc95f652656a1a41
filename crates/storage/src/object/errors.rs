//! Errors of SlateDB and of stores, as this crate reports them.

use std::time::Duration;

use slatedb::object_store::path::Path;
use slatedb::{CloseReason, ErrorKind, object_store};

use crate::StorageError;

/// A store that does not answer is asked again after so long.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Converts an error of SlateDB. `epoch` is the least epoch of an owner that fenced this one.
pub(super) fn failed(error: &slatedb::Error, epoch: u64) -> StorageError {
    match error.kind() {
        ErrorKind::Closed(CloseReason::Fenced) => StorageError::Fenced { epoch },
        ErrorKind::Closed(CloseReason::Clean) => StorageError::Closed,
        ErrorKind::Unavailable => StorageError::Unavailable { retry_after: RETRY_AFTER },
        ErrorKind::Data => StorageError::Corrupt { what: error.to_string().into() },
        _ => StorageError::io(error),
    }
}

pub(super) fn unreadable(place: &Path, error: &object_store::Error) -> StorageError {
    match error {
        object_store::Error::NotFound { .. } => {
            StorageError::Corrupt { what: format!("'{place}' is missing").into() }
        }
        error => StorageError::io(format!("'{place}' cannot be read: {error}")),
    }
}
