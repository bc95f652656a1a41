//! What a storage engine implements: atomic ordered writes, a sync, and consistent reads.
//!
//! Asynchronous, although today's engines are not: an engine over an object store will be. The committer is the only
//! caller of `apply` and `sync`, one at a time and never both at once; everything else may be called from any thread.

use std::ops::Range;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::{Batch, ScanOptions, StorageError};

/// Stored bytes: cheap to clone, and on a local disk a slice of the cached block.
pub type Value = Bytes;
pub type Row = (Bytes, Value);
pub type EngineFuture<'a, T> = BoxFuture<'a, Result<T, StorageError>>;

/// Keys are 1 to this many bytes; [`crate::Shard::commit`] refuses others.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

pub trait Engine: Send + Sync + 'static {
    /// Makes all batches visible in order, as one atomic write; durable only after [`Engine::sync`].
    fn apply(&self, batches: Vec<Batch>) -> EngineFuture<'_, ()>;

    /// Returns when everything applied before is on stable storage.
    fn sync(&self) -> EngineFuture<'_, ()>;

    /// The newest value applied. Two calls may see two states; a [`Engine::snapshot`] is for reading several keys.
    fn get<'a>(&'a self, key: &'a [u8]) -> EngineFuture<'a, Option<Value>>;

    fn snapshot(&self) -> Box<dyn EngineSnapshot>;

    /// Stores rows whose keys ascend and are new, beside the log: all of them, durable when it returns, or none. Blocks, next
    /// to other callers. `Ok(false)`, and nothing taken, from an engine that has no such way.
    fn load(&self, _rows: &mut (dyn Iterator<Item = Row> + Send)) -> Result<bool, StorageError> {
        Ok(false)
    }

    /// Makes everything durable and sorts it to its place, so that little is left to replay at the next start.
    fn flush(&self) -> EngineFuture<'_, ()>;

    /// The last call: flushes and notes that the next start has nothing to replay.
    fn close(&self) -> EngineFuture<'_, ()>;

    /// Bytes on disk, or in memory for an engine without one.
    fn disk_bytes(&self) -> u64;

    /// Whether `apply` and `sync` do their work in the call and return futures that are ready: then a writer may call
    /// them where it waits.
    fn never_pends(&self) -> bool {
        false
    }

    /// Whether a write may take much longer now than a sync: then no writer should do it where it waits.
    fn may_be_held_up(&self) -> bool {
        false
    }
}

/// A consistent view of one moment.
pub trait EngineSnapshot: Send + Sync {
    fn get<'a>(&'a self, key: &'a [u8]) -> EngineFuture<'a, Option<Value>>;

    /// Rows of the range, in descending order when `options.reverse`.
    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan>;
}

/// A scan in progress; it keeps its snapshot alive.
pub trait EngineScan: Send {
    /// The next rows: as many as fit [`ScanOptions::CHUNK_ROWS`] and [`ScanOptions::CHUNK_BYTES`], but at least one and
    /// at most `rows_max`; none at the end.
    fn next_chunk(&mut self, rows_max: usize) -> EngineFuture<'_, Vec<Row>>;

    /// Passes over up to `rows_max` rows and says over how many; none at the end.
    fn count_chunk(&mut self, rows_max: usize) -> EngineFuture<'_, usize> {
        let rows = self.next_chunk(rows_max);
        Box::pin(async move { rows.await.map(|rows| rows.len()) })
    }
}
