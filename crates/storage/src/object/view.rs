//! Reads of one point in time.
//!
//! A read from memory ends at once, so each read is polled in the call; only a read that has to
//! fetch is boxed into an answer that comes later. Fetches need the runtime whose sockets they use,
//! whichever thread polls them.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use slatedb::config::{ReadOptions, ScanOptions as SlateScanOptions};
use slatedb::{Db, DbIterator, DbReader, DbSnapshot, IterationOrder};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::circuit::Circuit;
use super::database::{Database, has_ended};
use super::errors::{RETRY_AFTER, failed};
use crate::engine::EngineScan;
use crate::{Answer, EngineView, Lookup, Row, ScanOptions, StorageError, Value};

/// Asked for at once by a scan whose reader leaves it to the engine.
const READ_AHEAD_BYTES: usize = 128 * 1024;
const FETCHES_AT_ONCE: usize = 4;

/// A store that takes longer counts as not answering.
const READ_MAX: Duration = Duration::from_secs(10);

/// The source of reads: both show one point in time.
#[derive(Clone)]
enum Source {
    Snapshot(Arc<DbSnapshot>, Arc<Db>),
    Checkpoint(Arc<DbReader>),
}

pub(super) struct ObjectView {
    source: Result<Source, StorageError>,
    runtime: Handle,
    circuit: Option<Arc<Circuit>>,
    epoch: u64,
    moment: u64,
}

impl ObjectView {
    /// View of everything that is written.
    pub fn of_database(database: &Database) -> ObjectView {
        let open = database.now();
        let source = match open.database.snapshot() {
            Ok(snapshot) => Ok(Source::Snapshot(snapshot, open.database.clone())),
            Err(error) if has_ended(&open.database) => Err(ended(&error)),
            Err(error) => Err(database.failed(&error)),
        };
        let (place, epoch) = (database.place(), database.epoch());
        let (runtime, circuit) =
            (place.runtime.clone(), place.circuits.as_ref().map(|circuits| circuits.data.clone()));
        ObjectView { source, runtime, circuit, epoch, moment: open.times }
    }

    pub fn of_checkpoint(reader: Arc<DbReader>, runtime: Handle, epoch: u64) -> ObjectView {
        ObjectView { source: Ok(Source::Checkpoint(reader)), runtime, circuit: None, epoch, moment: 0 }
    }
}

impl Source {
    /// Converts an error of a read.
    fn failed(&self, error: &slatedb::Error, epoch: u64) -> StorageError {
        match self {
            Source::Snapshot(_, database) if has_ended(database) => ended(error),
            _ => failed(error, epoch + 1),
        }
    }

    async fn get(&self, key: Vec<u8>) -> Result<Option<Value>, slatedb::Error> {
        let options = ReadOptions::default();
        match self {
            Source::Snapshot(snapshot, _) => snapshot.get_with_options(key, &options).await,
            Source::Checkpoint(reader) => reader.get_with_options(key, &options).await,
        }
    }

    async fn scan(
        &self,
        range: Range<Vec<u8>>,
        options: SlateScanOptions,
    ) -> Result<DbIterator, slatedb::Error> {
        match self {
            Source::Snapshot(snapshot, _) => snapshot.scan_with_options(range, &options).await,
            Source::Checkpoint(reader) => reader.scan_with_options(range, &options).await,
        }
    }
}

impl EngineView for ObjectView {
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        let source = match &self.source {
            Ok(source) => source.clone(),
            Err(error) => return Answer::Now(Err(error.clone())),
        };
        let (key, epoch, circuit) = (key.to_vec(), self.epoch, self.circuit.clone());
        let read = async move {
            let read = in_time(circuit.as_deref(), source.get(key)).await;
            read.ok_or_else(silent)?.map_err(|error| source.failed(&error, epoch))
        };
        at_once_or_later(InRuntime { runtime: self.runtime.clone(), work: Box::pin(read) })
    }

    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan> {
        let read_ahead_bytes = match options.read_ahead_bytes {
            0 => READ_AHEAD_BYTES,
            bytes => bytes,
        };
        let order = if options.reverse { IterationOrder::Descending } else { IterationOrder::Ascending };
        let options = SlateScanOptions::default()
            .with_read_ahead_bytes(read_ahead_bytes)
            .with_cache_blocks(options.fills_cache)
            .with_max_fetch_tasks(FETCHES_AT_ONCE)
            .with_order(order);
        let state = match &self.source {
            Err(error) => State::Failed(error.clone()),
            Ok(_) if range.is_empty() => State::Ended,
            Ok(source) => State::Begins(source.clone(), range, options),
        };
        let (runtime, circuit) = (self.runtime.clone(), self.circuit.clone());
        Box::new(ObjectScan { state, runtime, circuit, epoch: self.epoch })
    }

    fn moment(&self) -> u64 {
        self.moment
    }
}

struct ObjectScan {
    state: State,
    runtime: Handle,
    circuit: Option<Arc<Circuit>>,
    epoch: u64,
}

enum State {
    Begins(Source, Range<Vec<u8>>, SlateScanOptions),
    Runs(Source, Box<DbIterator>),
    Ended,
    Failed(StorageError),
}

impl ObjectScan {
    /// A scan that was given up has lost rows that it had read: it fails from then on.
    async fn chunk_in_time(&mut self, rows_max: usize) -> Result<Vec<Row>, StorageError> {
        let circuit = self.circuit.clone();
        match in_time(circuit.as_deref(), self.chunk(rows_max)).await {
            Some(chunk) => chunk,
            None => {
                self.state = State::Failed(silent());
                Err(silent())
            }
        }
    }

    async fn chunk(&mut self, rows_max: usize) -> Result<Vec<Row>, StorageError> {
        let epoch = self.epoch;
        if let State::Begins(source, range, options) = &self.state {
            let rows = source.scan(range.clone(), options.clone()).await;
            let rows = rows.map_err(|error| source.failed(&error, epoch))?;
            self.state = State::Runs(source.clone(), Box::new(rows));
        }
        let (source, rows) = match &mut self.state {
            State::Runs(source, rows) => (source, rows),
            State::Failed(error) => return Err(error.clone()),
            State::Begins(..) | State::Ended => return Ok(Vec::new()),
        };
        let (mut chunk, mut size_bytes) = (Vec::new(), 0);
        while chunk.len() < rows_max && size_bytes < ScanOptions::CHUNK_BYTES {
            let Some(row) = rows.next().await.map_err(|error| source.failed(&error, epoch))? else {
                self.state = State::Ended;
                break;
            };
            size_bytes += row.key.len() + row.value.len();
            chunk.push((row.key, row.value));
        }
        Ok(chunk)
    }
}

impl EngineScan for ObjectScan {
    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        let runtime = self.runtime.clone();
        at_once_or_later(InRuntime { runtime, work: Box::pin(self.chunk_in_time(rows_max)) })
    }
}

/// `None` where the store does not answer, or its circuit is open. Rows in memory are read all the
/// same: memory is tried first.
async fn in_time<T>(circuit: Option<&Circuit>, read: impl Future<Output = T>) -> Option<T> {
    let refused = async {
        match circuit {
            Some(circuit) => circuit.refused().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        read = timeout(READ_MAX, read) => {
            if let (Err(_), Some(circuit)) = (&read, circuit) {
                circuit.note_failure();
            }
            read.ok()
        }
        () = refused => None,
    }
}

/// The database has ended by itself, and is opened again: the state that was read cannot be had any more.
fn ended(error: &slatedb::Error) -> StorageError {
    tracing::debug!(%error, "a view of a database that has ended was read");
    silent()
}

fn silent() -> StorageError {
    StorageError::Unavailable { retry_after: RETRY_AFTER }
}

fn at_once_or_later<'a, T: 'a>(mut read: InRuntime<'a, T>) -> Answer<'a, T> {
    match Pin::new(&mut read).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Answer::Now(answer),
        Poll::Pending => Answer::Later(Box::pin(read)),
    }
}

/// Work that is polled in the runtime it belongs to.
struct InRuntime<'a, T> {
    runtime: Handle,
    work: BoxFuture<'a, Result<T, StorageError>>,
}

impl<T> Future for InRuntime<'_, T> {
    type Output = Result<T, StorageError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let runtime = self.runtime.clone();
        let _entered = runtime.enter();
        self.work.as_mut().poll(context)
    }
}
