//! What a storage engine implements: atomic ordered writes, a sync, and consistent reads.
//!
//! Asynchronous, although today's engines are not: an engine over an object store will be. The committer is the only
//! caller of `apply` and `sync`, one at a time.

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::{Batch, ScanOptions, StorageError};

pub type Row = (Bytes, Bytes);

pub trait Engine: Send + Sync + 'static {
    /// Makes all batches visible in order, as one atomic write; durable only after [`Engine::sync`].
    fn apply(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), StorageError>>;

    /// Returns when everything applied before is on stable storage.
    fn sync(&self) -> BoxFuture<'_, Result<(), StorageError>>;

    /// The newest value applied.
    fn get(&self, key: &[u8]) -> BoxFuture<'static, Result<Option<Bytes>, StorageError>>;

    fn snapshot(&self) -> Box<dyn EngineSnapshot>;

    /// Makes everything durable and leaves as little as possible to replay at the next start.
    fn close(&self) -> BoxFuture<'_, Result<(), StorageError>>;

    /// Bytes on disk, or in memory for an engine without one.
    fn disk_bytes(&self) -> u64;
}

/// A consistent view of one moment.
pub trait EngineSnapshot: Send + Sync {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StorageError>;

    /// Rows of `[start, end)`, at most [`ScanOptions::CHUNK_ROWS`] rows or about [`ScanOptions::CHUNK_BYTES`] bytes; in
    /// descending order when `options.reverse`. Fewer rows than both only at the end of the range or the limit.
    fn chunk(&self, start: &[u8], end: &[u8], options: ScanOptions) -> Result<Vec<Row>, StorageError>;
}
