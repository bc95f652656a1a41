//! File storage below tables: whole objects by path, in a folder, in an object store (feature
//! `object-storage`), or in memory.
//!
//! Every write is durable when its call returns. Paths are relative, with `/` between folders.

mod faults;
mod local;
mod memory;
#[cfg(feature = "object-storage")]
mod object;

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;

pub use faults::{Fault, Faults, FaultyStore};
pub use local::LocalStore;
pub use memory::MemoryStore;
#[cfg(feature = "object-storage")]
pub use object::{ObjectTableStore, Patience};

/// Storage of one folder of tables.
pub trait TableStore: fmt::Debug + Send + Sync {
    fn read(&self, path: &str) -> Result<Bytes, StoreError>;

    /// Exactly `length` bytes; fewer are an error.
    fn read_range(&self, path: &str, offset: u64, length: usize) -> Result<Bytes, StoreError>;

    fn size(&self, path: &str) -> Result<u64, StoreError>;

    /// Replaces the file in one step. Readers see the old or the new content.
    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Writer of a large new file, which appears when it is finished.
    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError>;

    /// Creates the file with this content unless it exists. Of several callers exactly one succeeds;
    /// the others get [`StoreErrorKind::Exists`].
    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// All files below a folder, at any depth, in the order of their paths. A missing folder is empty.
    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError>;

    /// Deletes a file; a missing one is no error.
    fn delete(&self, path: &str) -> Result<(), StoreError>;
}

impl<S: TableStore + ?Sized> TableStore for Arc<S> {
    fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        (**self).read(path)
    }

    fn read_range(&self, path: &str, offset: u64, length: usize) -> Result<Bytes, StoreError> {
        (**self).read_range(path, offset, length)
    }

    fn size(&self, path: &str) -> Result<u64, StoreError> {
        (**self).size(path)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        (**self).write(path, bytes)
    }

    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError> {
        (**self).writer(path)
    }

    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        (**self).create_if_absent(path, bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        (**self).list(folder)
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        (**self).delete(path)
    }
}

/// A file that is being written. Dropping it without `finish` leaves no file.
pub trait StoreWriter: Write + Send {
    /// Makes the file durable and visible.
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    pub path: String,
    pub size: u64,
    /// Milliseconds since 1970.
    pub modified: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    NotFound,
    /// The file exists already.
    Exists,
    /// The disk or store failed. The operation may have had its effect.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    pub kind: StoreErrorKind,
    pub path: String,
    pub reason: String,
}

impl StoreError {
    fn of(path: &str, error: &std::io::Error) -> StoreError {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => StoreErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => StoreErrorKind::Exists,
            _ => StoreErrorKind::Failed,
        };
        StoreError { kind, path: path.to_owned(), reason: error.to_string() }
    }

    pub fn is_missing(&self) -> bool {
        self.kind == StoreErrorKind::NotFound
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl std::error::Error for StoreError {}
