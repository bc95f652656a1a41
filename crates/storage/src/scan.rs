//! Reading a consistent view: single keys, and ranges in chunks.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::EngineScan;
use crate::{EngineSnapshot, Row, StorageError, Value};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanOptions {
    pub reverse: bool,
    /// Rows of the whole scan.
    pub limit: Option<usize>,
}

impl ScanOptions {
    pub const CHUNK_ROWS: usize = 256;
    pub const CHUNK_BYTES: usize = 256 * 1024;
    /// Rows passed over at a time when they are only counted.
    pub const COUNTED_ROWS: usize = 2048;
}

/// A consistent view of one moment. It holds back the reclaiming of what it sees: keep it short.
#[derive(Clone)]
pub struct Snapshot(Arc<dyn EngineSnapshot>);

impl Snapshot {
    pub(crate) fn new(inner: Box<dyn EngineSnapshot>) -> Self {
        Snapshot(inner.into())
    }

    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.0.get(key).await
    }

    /// The values of the keys, in the order of the keys.
    pub async fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>, StorageError> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(self.0.get(key.as_ref()).await?);
        }
        Ok(values)
    }

    /// Rows of `[start, end)`.
    pub fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Scan {
        let rows_left = if range.is_empty() { 0 } else { options.limit.unwrap_or(usize::MAX) };
        let scan = (rows_left > 0).then(|| self.0.scan(range, options));
        Scan { scan, rows_left }
    }
}

/// A scan in progress.
pub struct Scan {
    /// Given up at the end, so that a finished scan holds back nothing.
    scan: Option<Box<dyn EngineScan>>,
    rows_left: usize,
}

impl Scan {
    /// The next rows; `None` at the end. Never an empty chunk.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<Row>>, StorageError> {
        // A long scan over cached rows never waits for anything: let other tasks of this thread have a turn.
        tokio::task::coop::consume_budget().await;
        let Some(scan) = &mut self.scan else { return Ok(None) };
        let rows = scan.next_chunk(self.rows_left.min(ScanOptions::CHUNK_ROWS)).await?;
        assert!(rows.len() <= self.rows_left, "an engine keeps to the rows it was asked for");
        self.rows_left -= rows.len();
        if rows.is_empty() || self.rows_left == 0 {
            self.scan = None;
        }
        Ok((!rows.is_empty()).then_some(rows))
    }
}

impl Scan {
    /// Passes over the next rows without looking at them; `None` at the end.
    pub async fn count_chunk(&mut self) -> Result<Option<usize>, StorageError> {
        tokio::task::coop::consume_budget().await;
        let Some(scan) = &mut self.scan else { return Ok(None) };
        let count = scan.count_chunk(self.rows_left.min(ScanOptions::COUNTED_ROWS)).await?;
        assert!(count <= self.rows_left, "an engine keeps to the rows it was asked for");
        self.rows_left -= count;
        if count == 0 || self.rows_left == 0 {
            self.scan = None;
        }
        Ok((count > 0).then_some(count))
    }
}

/// Collects rows up to the size of a chunk.
pub(crate) fn collect_chunk(
    rows: impl Iterator<Item = Result<(Bytes, Value), StorageError>>,
    rows_max: usize,
) -> Result<Vec<Row>, StorageError> {
    let mut chunk = Vec::new();
    let mut size_bytes = 0;
    for row in rows.take(rows_max) {
        let (key, value) = row?;
        size_bytes += key.len() + value.len();
        chunk.push((key, value));
        if size_bytes >= ScanOptions::CHUNK_BYTES {
            break;
        }
    }
    Ok(chunk)
}
