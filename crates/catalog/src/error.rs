//! Errors of the catalog itself. The planner of a change reports the requests that a client may not make.

use shardlake_storage::StorageError;

#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A stored record cannot be read, or records contradict each other. Nothing is served from such a catalog.
    #[error("the catalog is damaged: {0}")]
    Corrupt(String),
    /// A planned change would break a predicate: a mistake in the program. Nothing was changed.
    #[error("a change of the catalog was refused, since it would contradict itself: {0}")]
    Refused(String),
    /// An earlier change may or may not be on disk: only the next start can decide. No further change is accepted.
    #[error(
        "definitions cannot be changed, since it is unknown whether the last change was stored: restart the server"
    )]
    InDoubt,
    /// The account is being closed.
    #[error("the server is stopping")]
    Closed,
}

impl CatalogError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        CatalogError::Corrupt(what.into())
    }
}
