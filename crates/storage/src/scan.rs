//! Reading ranges of a view in chunks.

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::{Answer, Chunk, EngineScan, Row, ScanOptions, StorageError, Value, witness};

/// A scan in progress.
pub struct Scan {
    /// Given up at the end, so that a finished scan holds back nothing.
    scan: Option<Box<dyn EngineScan>>,
    /// The next chunk, on its way while the last one is looked at, and the rows that were asked for.
    ahead: Option<(JoinHandle<Fetched>, usize)>,
    rows_left: usize,
    reads_ahead: bool,
}

/// A scan comes back with its chunk.
type Fetched = (Box<dyn EngineScan>, Result<Vec<Row>, StorageError>);

impl Scan {
    pub(crate) fn new(scan: Option<Box<dyn EngineScan>>, rows_left: usize, reads_ahead: bool) -> Self {
        Scan { scan, ahead: None, rows_left, reads_ahead }
    }

    /// The next rows; `None` at the end. Never an empty chunk.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<Row>>, StorageError> {
        self.next_rows(ScanOptions::CHUNK_ROWS).await
    }

    /// Returns the next rows for a caller that needs no more than so many; rows that are on their
    /// way already may be more.
    pub async fn next_rows(&mut self, rows_max: usize) -> Result<Option<Vec<Row>>, StorageError> {
        // A long scan over cached rows never waits for anything: let other tasks of this thread
        // run.
        tokio::task::coop::consume_budget().await;
        let (rows, asked, was_later) = match &mut self.ahead {
            Some((fetching, asked)) => {
                witness::may_wait("a read");
                let asked = *asked;
                // Kept meanwhile, for when this future is dropped and the next chunk asked for again.
                let fetched = fetching.await;
                self.ahead = None;
                let (scan, rows) = fetched.map_err(|error| StorageError::io(error.to_string()))?;
                self.scan = Some(scan);
                (rows?, asked, true)
            }
            None => {
                let Some(scan) = &mut self.scan else { return Ok(None) };
                let asked = self.rows_left.min(rows_max.clamp(1, ScanOptions::CHUNK_ROWS));
                match scan.next_chunk(asked) {
                    Answer::Now(rows) => (rows?, asked, false),
                    later => (later.await?, asked, true),
                }
            }
        };
        assert!(rows.len() <= asked, "an engine keeps to the rows it was asked for");
        self.rows_left -= rows.len();
        if self.rows_left == 0 || is_last_chunk(&rows, asked) {
            self.scan = None;
        } else if was_later && self.reads_ahead {
            self.fetch_ahead();
        }
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// [`Scan::next_chunk`] without a copy of rows that are kept in memory.
    pub async fn next_rows_in_place(&mut self) -> Result<Option<Chunk>, StorageError> {
        // Before any row is taken, which would be lost with this future.
        tokio::task::coop::consume_budget().await;
        if self.ahead.is_none()
            && let Some(scan) = &mut self.scan
            && let Some(kept) = scan.next_kept(self.rows_left.min(ScanOptions::CHUNK_ROWS))
        {
            self.rows_left -= kept.places.len();
            if self.rows_left == 0 {
                self.scan = None;
            }
            return Ok(Some(Chunk::Kept(kept)));
        }
        Ok(self.next_chunk().await?.map(Chunk::Read))
    }

    /// Whether it is known that no rows follow.
    pub fn is_over(&self) -> bool {
        self.scan.is_none() && self.ahead.is_none()
    }

    fn fetch_ahead(&mut self) {
        // Without a runtime no task would fetch.
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(mut scan) = self.scan.take() else { return };
        let asked = self.rows_left.min(ScanOptions::CHUNK_ROWS);
        let fetch = async move {
            let rows = scan.next_chunk(asked).await;
            (scan, rows)
        };
        self.ahead = Some((runtime.spawn(fetch), asked));
    }

    /// Passes over the next rows without looking at them; `None` at the end.
    pub async fn count_chunk(&mut self) -> Result<Option<usize>, StorageError> {
        tokio::task::coop::consume_budget().await;
        if self.ahead.is_some() {
            return Ok(self.next_chunk().await?.map(|rows| rows.len()));
        }
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

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some((fetching, _)) = &self.ahead {
            fetching.abort();
        }
    }
}

/// An engine fills a chunk as long as it has rows, so that a smaller one spares the question whether there are more.
pub(crate) fn is_last_chunk(rows: &[Row], asked: usize) -> bool {
    let size_bytes = || rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    rows.len() < asked && size_bytes() < ScanOptions::CHUNK_BYTES
}

/// Capacity that a chunk begins with: most are as long as a page or longer.
const ROWS_AT_FIRST: usize = 128;

/// Collects rows up to the size of a chunk.
pub(crate) fn collect_chunk(
    rows: impl Iterator<Item = Result<(Bytes, Value), StorageError>>,
    rows_max: usize,
) -> Result<Vec<Row>, StorageError> {
    let mut chunk = Vec::with_capacity(rows_max.min(ROWS_AT_FIRST));
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
