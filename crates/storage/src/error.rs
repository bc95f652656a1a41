//! Errors of storage, and how the caller can react to them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// A write or sync failed earlier. Reads still return the acknowledged state; open the shard
    /// again to write.
    #[error(
        "storage refuses writes since a write failed ({reason}): free space or replace the disk, then restart"
    )]
    Poisoned { reason: Arc<str> },
    /// The engine over an object store ended by itself, and cannot be opened again. Reads from
    /// memory still succeed; a restart may help.
    #[error(
        "storage refuses writes since its engine ended ({reason}): restart the server; if it does not start, restore the account from a backup"
    )]
    Ended { reason: Arc<str> },
    /// Too much is queued. Nothing was changed; retry later.
    #[error("too many writes are queued: retry later")]
    Overloaded,
    /// A mistake of the caller: nothing was changed.
    #[error("a key of {length} bytes cannot be stored: keys are 1 to 65535 bytes")]
    KeyLength { length: usize },
    #[error("the shard is closed")]
    Closed,
    #[error("the directory '{}' is in use by another process", directory.display())]
    Locked { directory: PathBuf },
    /// The directory is known to have had a shard.
    #[error("there is no shard in '{}'", directory.display())]
    Missing { directory: PathBuf },
    #[error("the directory '{}' holds format {found}, but this program reads format {expected}", directory.display())]
    Format { directory: PathBuf, found: String, expected: String },
    /// Another owner has opened the shard since, at this epoch. Nothing of this owner is accepted any more.
    #[error("the shard has another owner since epoch {epoch}")]
    Fenced { epoch: u64 },
    /// This owner's lease has expired: it may not return stored data until it has the lease again.
    #[error("the lease of the shard is over: retry later")]
    NotLeased,
    /// The store does not answer. Nothing is known to be wrong with it.
    #[error("the store does not answer: retry later")]
    Unavailable { retry_after: Duration },
    #[error("this storage engine makes no checkpoints")]
    NoCheckpoints,
    #[error("a checkpoint's name is 1 to 64 letters, digits, '-' and '_'")]
    CheckpointName,
    #[error("there is a checkpoint of that name")]
    CheckpointExists,
    #[error("there is no checkpoint of that name")]
    CheckpointMissing,
    /// Backups copy files; an account in memory has none.
    #[error("the shard has no files on a local disk or in an object store, and a backup consists of those")]
    NoFiles,
    #[error("stored data is damaged: {what}")]
    Corrupt { what: Arc<str> },
    #[error("storage failed: {what}")]
    Io { what: Arc<str> },
}

impl StorageError {
    pub fn io(what: impl std::fmt::Display) -> Self {
        StorageError::Io { what: what.to_string().into() }
    }
}

impl From<fjall::Error> for StorageError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Io(error) => StorageError::io(error),
            fjall::Error::Poisoned => StorageError::Poisoned { reason: "the engine failed earlier".into() },
            fjall::Error::JournalRecovery(error) => {
                StorageError::Corrupt { what: format!("the journal cannot be recovered: {error:?}").into() }
            }
            other => StorageError::io(other),
        }
    }
}
