//! Reading ranges of a snapshot in chunks.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::{EngineSnapshot, Row, StorageError};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanOptions {
    pub reverse: bool,
    /// Rows of the whole scan.
    pub limit: Option<usize>,
}

impl ScanOptions {
    pub const CHUNK_ROWS: usize = 256;
    pub const CHUNK_BYTES: usize = 256 * 1024;
}

/// A consistent view of one moment. It holds back the reclaiming of what it sees: keep it short.
#[derive(Clone)]
pub struct Snapshot(Arc<dyn EngineSnapshot>);

impl Snapshot {
    pub(crate) fn new(inner: Box<dyn EngineSnapshot>) -> Self {
        Snapshot(inner.into())
    }

    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        self.0.get(key)
    }

    pub async fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>, StorageError> {
        keys.iter().map(|key| self.0.get(key)).collect()
    }

    /// Rows of `[start, end)`.
    pub fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Scan {
        let exhausted = range.start >= range.end || options.limit == Some(0);
        Scan { snapshot: self.0.clone(), start: range.start, end: range.end, options, exhausted }
    }
}

/// A scan in progress.
pub struct Scan {
    snapshot: Arc<dyn EngineSnapshot>,
    start: Vec<u8>,
    end: Vec<u8>,
    options: ScanOptions,
    exhausted: bool,
}

impl Scan {
    /// The next rows; `None` at the end. Never an empty chunk.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<Row>>, StorageError> {
        if self.exhausted {
            return Ok(None);
        }
        let rows = self.snapshot.chunk(&self.start, &self.end, self.options)?;
        let Some((last, _)) = rows.last() else {
            self.exhausted = true;
            return Ok(None);
        };
        if self.options.reverse {
            self.end = last.to_vec();
        } else {
            self.start = last.to_vec();
            self.start.push(0);
        }
        if let Some(limit) = &mut self.options.limit {
            *limit -= rows.len();
        }
        self.exhausted = self.start >= self.end || self.options.limit == Some(0);
        Ok(Some(rows))
    }
}

/// Collects rows up to the size of a chunk.
pub(crate) fn collect_chunk(
    rows: impl Iterator<Item = Result<Row, StorageError>>,
    options: ScanOptions,
) -> Result<Vec<Row>, StorageError> {
    let count = ScanOptions::CHUNK_ROWS.min(options.limit.unwrap_or(usize::MAX));
    let mut chunk = Vec::with_capacity(count.min(32));
    let mut size_bytes = 0;
    for row in rows.take(count) {
        let (key, value) = row?;
        size_bytes += key.len() + value.len();
        chunk.push((key, value));
        if size_bytes >= ScanOptions::CHUNK_BYTES {
            break;
        }
    }
    Ok(chunk)
}
