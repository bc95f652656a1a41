//! Views and scans of the engine on a local disk: read in the call, or where a thread may block (`slow_reads.rs`).

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fjall::{Keyspace, Readable};
use tokio::sync::oneshot;

use crate::engine::EngineScan;
use crate::scan::collect_chunk;
use crate::slow_reads::{SlowReads, Way};
use crate::{Answer, EngineView, Lookup, Row, ScanOptions, StorageError, Value, readers};

/// Rows of a chunk that take about as long as one key.
const ROWS_LIKE_A_KEY: u32 = 32;

pub(crate) struct LocalView(Arc<Moment>);

struct Moment {
    snapshot: fjall::Snapshot,
    rows: Keyspace,
    pace: Arc<SlowReads>,
}

impl LocalView {
    pub fn new(snapshot: fjall::Snapshot, rows: Keyspace, pace: Arc<SlowReads>) -> Self {
        LocalView(Arc::new(Moment { snapshot, rows, pace }))
    }
}

impl Moment {
    fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        Ok(self.snapshot.get(&self.rows, key)?.map(Bytes::from))
    }
}

/// Reads where a thread may block.
pub(crate) fn elsewhere<T: Send + 'static>(
    pace: &Arc<SlowReads>,
    read: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Lookup<T> {
    let pace = pace.clone();
    Answer::later(async move {
        let read = readers::run(move || pace.read(true, one_key, read));
        read.await.unwrap_or_else(|_| Err(panicked()))
    })
}

fn panicked() -> StorageError {
    StorageError::io("the storage engine panicked while it read")
}

impl EngineView for LocalView {
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        match self.0.pace.way() {
            Way::InTheCall { measured } => {
                Answer::Now(self.0.pace.read(measured, one_key, || self.0.get(key)))
            }
            Way::Elsewhere => {
                let (moment, key) = (self.0.clone(), key.to_vec());
                elsewhere(&self.0.pace, move || moment.get(&key))
            }
        }
    }

    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan> {
        let rows = self.0.snapshot.range(&self.0.rows, range);
        let rows = Rows { rows, reverse: options.reverse };
        Box::new(LocalScan { place: Place::Here(rows), pace: self.0.pace.clone() })
    }

    fn moment(&self) -> u64 {
        self.0.snapshot.seqno()
    }

    fn reads_at_once(&self) -> bool {
        self.0.pace.is_quick()
    }
}

struct LocalScan {
    place: Place,
    pace: Arc<SlowReads>,
}

/// Where the rows are.
enum Place {
    Here(Rows),
    /// A thread reads the next chunk with them: kept until it ends, so that a caller that stopped
    /// waiting may ask again.
    Away(oneshot::Receiver<(Rows, Result<Vec<Row>, StorageError>)>),
    /// A thread panicked with them.
    Lost,
}

struct Rows {
    /// Keeps the snapshot alive by itself.
    rows: fjall::Iter,
    reverse: bool,
}

impl Rows {
    fn chunk(&mut self, rows_max: usize) -> Result<Vec<Row>, StorageError> {
        let row = |guard: fjall::Guard| {
            let (key, value) = guard.into_inner()?;
            Ok((Bytes::from(key), Bytes::from(value)))
        };
        let rows = self.rows.by_ref();
        if self.reverse {
            collect_chunk(rows.rev().map(row), rows_max)
        } else {
            collect_chunk(rows.map(row), rows_max)
        }
    }

    fn count(&mut self, rows_max: usize) -> Result<usize, StorageError> {
        let key = |guard: fjall::Guard| guard.key().map(drop).map_err(StorageError::from);
        let rows = self.rows.by_ref();
        let count = |count: usize, row: Result<(), StorageError>| row.map(|()| count + 1);
        if self.reverse {
            rows.rev().take(rows_max).map(key).try_fold(0, count)
        } else {
            rows.take(rows_max).map(key).try_fold(0, count)
        }
    }
}

/// Size of a read, in reads of one key.
pub(crate) fn one_key<T>(_read: &T) -> u32 {
    1
}

fn like_keys(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX) / ROWS_LIKE_A_KEY + 1
}

fn chunk_like_keys(chunk: &Result<Vec<Row>, StorageError>) -> u32 {
    like_keys(chunk.as_ref().map_or(0, Vec::len))
}

impl LocalScan {
    /// The chunk that a thread reads, asked for now or before.
    async fn chunk_from_away(&mut self) -> Result<Vec<Row>, StorageError> {
        let Place::Away(chunk) = &mut self.place else { return Err(panicked()) };
        let Ok((rows, chunk)) = chunk.await else {
            self.place = Place::Lost;
            return Err(panicked());
        };
        self.place = Place::Here(rows);
        chunk
    }

    fn send_away(&mut self, mut rows: Rows, rows_max: usize) {
        let pace = self.pace.clone();
        self.place = Place::Away(readers::run(move || {
            let chunk = pace.read(true, chunk_like_keys, || rows.chunk(rows_max));
            (rows, chunk)
        }));
    }
}

impl EngineScan for LocalScan {
    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        if let Place::Here(rows) = &mut self.place {
            if let Way::InTheCall { measured } = self.pace.way() {
                return Answer::Now(self.pace.read(measured, chunk_like_keys, || rows.chunk(rows_max)));
            }
            if let Place::Here(rows) = std::mem::replace(&mut self.place, Place::Lost) {
                self.send_away(rows, rows_max);
            }
        }
        Answer::later(self.chunk_from_away())
    }

    fn count_chunk(&mut self, rows_max: usize) -> Answer<'_, usize> {
        if let Place::Here(rows) = &mut self.place
            && let Way::InTheCall { measured } = self.pace.way()
        {
            let counted_like_keys =
                |count: &Result<usize, _>| like_keys(count.as_ref().map_or(0, |count| *count));
            return Answer::Now(self.pace.read(measured, counted_like_keys, || rows.count(rows_max)));
        }
        match self.next_chunk(rows_max) {
            Answer::Now(rows) => Answer::Now(rows.map(|rows| rows.len())),
            Answer::Later(rows) => Answer::later(async { rows.await.map(|rows| rows.len()) }),
        }
    }
}
