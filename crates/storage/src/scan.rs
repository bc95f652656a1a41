//! Reading ranges of a view in chunks.

use bytes::Bytes;

use crate::engine::EngineScan;
use crate::{Row, StorageError, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOptions {
    pub reverse: bool,
    /// Rows of the whole scan.
    pub limit: Option<usize>,
    /// How much an engine over a slow store fetches before it is asked; 0 leaves that to the engine.
    pub read_ahead_bytes: usize,
    /// False for copies, sweeps and checks: what they read once must not push out what clients read often.
    pub fills_cache: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions { reverse: false, limit: None, read_ahead_bytes: 0, fills_cache: true }
    }
}

impl ScanOptions {
    /// For who reads much of a range, once.
    pub const SWEEP: ScanOptions =
        ScanOptions { reverse: false, limit: None, read_ahead_bytes: 1024 * 1024, fills_cache: false };
    pub const CHUNK_ROWS: usize = 256;
    pub const CHUNK_BYTES: usize = 256 * 1024;
    /// Rows passed over at a time when they are only counted.
    pub const COUNTED_ROWS: usize = 2048;
}

/// A scan in progress.
pub struct Scan {
    /// Given up at the end, so that a finished scan holds back nothing.
    scan: Option<Box<dyn EngineScan>>,
    rows_left: usize,
}

impl Scan {
    pub(crate) fn new(scan: Option<Box<dyn EngineScan>>, rows_left: usize) -> Self {
        Scan { scan, rows_left }
    }

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
