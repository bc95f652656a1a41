//! Interface of a storage engine: atomic ordered writes, a sync, and consistent views.
//!
//! An engine on a local disk answers in the call ([`Answer::Now`]); one over an object store answers later. The committer
//! is the only caller of `apply` and `sync`; everything else may be called from any thread.

use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::shard_metrics::EngineState;
use crate::{Answer, Batch, KeptFiles, KeptRows, LogPosition, Lookup, Resolve, Row, StorageError, Value};

/// Keys are 1 to this many bytes; [`crate::Shard::commit`] refuses others.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;
/// Keys that one call reads at a time.
pub const CONCURRENT_READS_MAX: usize = 128;

pub trait Engine: Send + Sync + 'static {
    /// Makes all batches visible in order, as one atomic write; durable only after [`Engine::sync`].
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()>;

    /// Answers when everything applied before is on stable storage.
    fn sync(&self) -> Answer<'_, ()>;

    /// Everything that is applied.
    fn view(&self) -> Box<dyn EngineView>;

    /// The newest value applied. Two calls may see two states; a [`Engine::view`] is for reading several keys.
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        self.view().get(key)
    }

    /// Moves when a new view would show more, or read faster, than one made before: see [`EngineView::moment`].
    fn moment(&self) -> u64 {
        0
    }

    /// Whether many rows can be stored past the log: [`Engine::load`].
    fn loads(&self) -> bool {
        false
    }

    /// Stores rows whose keys ascend and are new, past the log: all of them, durable when it
    /// returns, or none. Blocks, concurrently with other callers.
    fn load(&self, _rows: &mut (dyn Iterator<Item = Row> + Send)) -> Result<(), StorageError> {
        Err(StorageError::io("the engine has no way to load rows"))
    }

    /// Makes everything durable and sorts it to its place, so that little is left to replay at the next start.
    fn flush(&self) -> Answer<'_, ()>;

    /// Drops all keys with the prefix without a row for each. No write to these keys may be queued
    /// or follow. `false`: some or all keys may be left, for the caller to delete. Repeating an
    /// interrupted drop completes it.
    fn drop_prefix(&self, _prefix: &[u8]) -> Answer<'_, bool> {
        Answer::Now(Ok(false))
    }

    /// The last call: flushes and notes that the next start has nothing to replay.
    fn close(&self) -> Answer<'_, ()>;

    /// Keeps a state between two writes under a name that is not in use: everything applied before, and as durable as the
    /// engine is. Where the engine does its work in the call, nothing is written meanwhile.
    fn checkpoint(&self, _name: &str) -> Answer<'_, ()> {
        Answer::Now(Err(StorageError::NoCheckpoints))
    }

    /// Begins a checkpoint of an engine that answers later. When this answers, the checkpoint has
    /// every applied commit and no later one; the returned future ends when the checkpoint is
    /// stored, while writes continue.
    fn begin_checkpoint(&self, _name: &str) -> Answer<'_, BoxFuture<'static, Result<(), StorageError>>> {
        Answer::Now(Err(StorageError::NoCheckpoints))
    }

    /// Where the log ends, looked for from an earlier place on. While something is written, a place before the end.
    fn log_position(&self, _from: &LogPosition) -> Answer<'_, LogPosition> {
        Answer::Now(Ok(LogPosition::default()))
    }

    /// Makes a checkpoint where everything before a place in the log has been flushed since: only
    /// the part behind it is copied from the log.
    fn checkpoint_from(&self, name: &str, _flushed: &LogPosition) -> Answer<'_, ()> {
        self.checkpoint(name)
    }

    /// Opens the checkpoint of this name for reading.
    fn open_checkpoint(&self, _name: &str) -> Answer<'_, Arc<dyn Engine>> {
        Answer::Now(Err(StorageError::CheckpointMissing))
    }

    fn remove_checkpoint(&self, _name: &str) -> Answer<'_, ()> {
        Answer::Now(Err(StorageError::CheckpointMissing))
    }

    /// The names under which states are kept.
    fn checkpoints(&self) -> Answer<'_, Vec<String>> {
        Answer::Now(Ok(Vec::new()))
    }

    /// The files of the checkpoint of this name.
    fn kept_files(&self, _name: &str) -> Answer<'_, KeptFiles> {
        Answer::Now(Err(StorageError::NoFiles))
    }

    /// Archives the log for so long, and returns it with [`Engine::kept_files`]. `None`: stops
    /// archiving and deletes the archived log.
    fn keep_log(&self, window: Option<Duration>) -> Answer<'_, ()> {
        Answer::Now(match window {
            Some(_) => Err(StorageError::io("this storage engine has no log to keep")),
            None => Ok(()),
        })
    }

    /// Whether this process may still return stored data: see [`crate::Lease`].
    fn is_leased(&self) -> bool {
        true
    }

    /// Whether a commit may be queued: over an engine that answers later, not while its store is known to fail.
    fn check_store(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Bytes that its files take on the disk, or its rows in memory for an engine without files.
    fn disk_bytes(&self) -> u64;

    /// Bytes that files may still take on the disk; `None` for an engine without one of its own.
    fn disk_free_bytes(&self) -> Option<u64> {
        None
    }

    /// Its caches and background work, for metrics. May wait for a journal that is being synced.
    fn state(&self) -> EngineState {
        EngineState::default()
    }

    /// Whether answers may be [`Answer::Later`]: then a task commits, with a timer at hand. Otherwise `apply`, `sync`,
    /// `flush` and `close` do their work in the call, on threads that may block.
    fn answers_later(&self) -> bool {
        false
    }

    /// Whether a writer may call `apply` and `sync` where it waits, on a thread of the runtime.
    fn lets_writers_lead(&self) -> bool {
        false
    }

    /// Whether a write may take much longer now than a sync: then no writer should do it where it waits.
    fn may_be_held_up(&self) -> bool {
        false
    }
}

/// A consistent view of one point in time.
pub trait EngineView: Send + Sync {
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>>;

    /// The values of the keys, in the order of the keys; [`CONCURRENT_READS_MAX`] of them are read at a time.
    fn get_many(&self, keys: Vec<Bytes>) -> Lookup<Vec<Option<Value>>> {
        let mut values = Vec::with_capacity(keys.len());
        let mut left = keys.iter();
        for key in left.by_ref() {
            match self.get(key) {
                Answer::Now(Ok(value)) => values.push(value),
                Answer::Now(Err(error)) => return Answer::Now(Err(error)),
                Answer::Later(first) => {
                    let first = Answer::Later(first).into_future();
                    let rest = left.map(|key| self.get(key).into_future());
                    let answers: Vec<Resolve<'static, _>> = iter::once(first).chain(rest).collect();
                    return Answer::later(async move {
                        let later = stream::iter(answers).buffered(CONCURRENT_READS_MAX);
                        values.extend(later.try_collect::<Vec<_>>().await?);
                        Ok(values)
                    });
                }
            }
        }
        Answer::Now(Ok(values))
    }

    /// Rows of the range, in descending order when `options.reverse`.
    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan>;

    /// The value of [`Engine::moment`] when the view was made.
    fn moment(&self) -> u64 {
        0
    }

    /// Whether a read of one key is answered at once, as far as the engine can predict.
    fn reads_at_once(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOptions {
    pub reverse: bool,
    /// Rows of the whole scan.
    pub limit: Option<usize>,
    /// How much an engine over a slow store fetches before it is asked; 0 leaves that to the engine.
    pub read_ahead_bytes: usize,
    /// False for copies, sweeps and checks: rows that these read once must not push out rows that
    /// clients read often.
    pub fills_cache: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions { reverse: false, limit: None, read_ahead_bytes: 0, fills_cache: true }
    }
}

impl ScanOptions {
    /// Options for reading much of a range, once.
    pub const SWEEP: ScanOptions =
        ScanOptions { reverse: false, limit: None, read_ahead_bytes: 1024 * 1024, fills_cache: false };
    pub const CHUNK_ROWS: usize = 256;
    pub const CHUNK_BYTES: usize = 256 * 1024;
    /// Rows passed over at a time when they are only counted.
    pub const COUNTED_ROWS: usize = 2048;
}

/// A scan in progress; it keeps its view alive.
pub trait EngineScan: Send {
    /// The next rows: `rows_max` of them, or as many as reach [`ScanOptions::CHUNK_BYTES`], or those that are left. So a chunk
    /// that is smaller both ways is the last one.
    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>>;

    /// The next rows where they lie, where these are kept in memory: one at least. `None` leaves them to `next_chunk`.
    fn next_kept(&mut self, _rows_max: usize) -> Option<KeptRows> {
        None
    }

    /// Passes over up to `rows_max` rows and returns their number; 0 at the end.
    fn count_chunk(&mut self, rows_max: usize) -> Answer<'_, usize> {
        match self.next_chunk(rows_max) {
            Answer::Now(rows) => Answer::Now(rows.map(|rows| rows.len())),
            Answer::Later(rows) => Answer::later(async { rows.await.map(|rows| rows.len()) }),
        }
    }
}
