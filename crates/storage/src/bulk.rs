//! Work on whole ranges, in the background of other commits: dropping, filling and measuring.
//!
//! Dropping goes through ordinary commits of bounded size, one at a time, so that foreground commits find room between them and
//! memory stays bounded. Filling goes past the log where the engine has a way for that, in pieces. Neither is atomic as a whole:
//! repeating a drop that broke off completes it; what a fill left behind is for its caller to drop.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{Batch, Row, ScanOptions, Shard, StorageError};

const COMMIT_OPS_MAX: usize = 2048;
const COMMIT_BYTES_MAX: usize = 1024 * 1024;
/// Deletions of one commit of a drop, and the pause after it: nobody waits for a drop, and a large commit would hold up
/// those behind it.
const DROP_OPS_MAX: usize = 512;
const DROP_PAUSE: Duration = Duration::from_millis(15);
/// Rows of one piece of a load, which becomes a table of its own.
const LOAD_PIECE_BYTES: usize = 48 * 1024 * 1024;
/// Chunks on their way to the thread that loads.
const LOAD_CHUNKS_MAX: usize = 8;
const OVERLOADED_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeStats {
    pub keys: u64,
    /// Keys and values, before compression.
    pub size_bytes: u64,
}

impl Shard {
    /// Deletes every key of `[start, end)`, and gives how many there were. The caller has stopped writing to the range:
    /// commits that were queued before are deleted, too, and keys written behind the progress of the drop stay.
    pub async fn drop_range(&self, mut start: Vec<u8>, end: Vec<u8>) -> Result<u64, StorageError> {
        let mut deleted = 0;
        // Commits are applied in order, so no earlier one is in the queue after this. A snapshot would not show those.
        self.commit_in_background(Batch::new()).await?;
        loop {
            // A fresh snapshot each time, so that a long drop does not hold back the reclaiming of what it deletes.
            let options = ScanOptions { limit: Some(DROP_OPS_MAX), ..ScanOptions::default() };
            let mut scan = self.snapshot().scan(start.clone()..end.clone(), options);
            let mut batch = Batch::new();
            while let Some(rows) = scan.next_chunk().await? {
                rows.into_iter().for_each(|(key, _)| batch.delete(key));
            }
            let Some(last) = batch.iter().next_back() else { return Ok(deleted) };
            start = [last.key(), &[0][..]].concat();
            deleted += batch.len() as u64;
            let is_last = batch.len() < DROP_OPS_MAX;
            self.commit_in_background(batch).await?;
            if !is_last {
                tokio::time::sleep(DROP_PAUSE).await;
            }
        }
    }

    /// Starts loading rows whose keys ascend and are in nobody's use: the way to fill a partition, much faster than commits.
    pub fn bulk_load(&self) -> BulkLoad {
        let (sender, receiver) = mpsc::channel(LOAD_CHUNKS_MAX);
        let shard = self.clone();
        let runtime = Handle::current();
        let task = tokio::task::spawn_blocking(move || Loading::new(receiver).run(&shard, &runtime));
        BulkLoad { sender, task: Some(task) }
    }

    /// Measures `[start, end)` by reading it.
    pub async fn stats(&self, start: Vec<u8>, end: Vec<u8>) -> Result<RangeStats, StorageError> {
        let mut scan = self.snapshot().scan(start..end, ScanOptions::default());
        let mut stats = RangeStats::default();
        while let Some(rows) = scan.next_chunk().await? {
            stats.keys += rows.len() as u64;
            stats.size_bytes += rows.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        }
        Ok(stats)
    }

    /// Commits and waits until that is durable; foreground commits come first when the queue is full.
    pub async fn commit_in_background(&self, batch: Batch) -> Result<(), StorageError> {
        loop {
            let turn = self.turn_for(batch.len()).await;
            match turn.and_then(|turn| self.commit_in_turn(batch.clone(), turn)) {
                Ok(commit) => return commit.await,
                Err(StorageError::Overloaded) => tokio::time::sleep(OVERLOADED_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Likewise for who holds what others with a turn may wait for.
    pub async fn commit_without_turn(&self, batch: Batch) -> Result<(), StorageError> {
        loop {
            match self.commit(batch.clone()) {
                Ok(commit) => return commit.await,
                Err(StorageError::Overloaded) => tokio::time::sleep(OVERLOADED_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// A load in progress. Rows that were pushed are stored when [`BulkLoad::finish`] returns; a load that is dropped, or fails,
/// leaves any part of them.
#[derive(Debug)]
pub struct BulkLoad {
    sender: mpsc::Sender<Vec<Row>>,
    /// `None` once its end was told.
    task: Option<JoinHandle<Result<u64, StorageError>>>,
}

impl BulkLoad {
    /// Takes rows that follow those before in the order of the keys; waits while the engine is behind.
    pub async fn push(&mut self, rows: Vec<Row>) -> Result<(), StorageError> {
        if self.sender.send(rows).await.is_ok() {
            return Ok(());
        }
        // The thread ended early, which it does for an error only.
        let Some(task) = self.task.take() else {
            return Err(StorageError::io("a bulk load failed before"));
        };
        match task.await {
            Ok(Err(error)) => Err(error),
            _ => Err(StorageError::io("a bulk load ended before its rows did")),
        }
    }

    /// Gives how many rows are stored now, durably.
    pub async fn finish(self) -> Result<u64, StorageError> {
        drop(self.sender);
        let Some(task) = self.task else { return Err(StorageError::io("a bulk load failed before")) };
        task.await.map_err(|error| StorageError::io(format!("a bulk load failed: {error}")))?
    }
}

/// The rows of a load as the engine asks for them, cut into pieces.
struct Loading {
    chunks: mpsc::Receiver<Vec<Row>>,
    rows: std::vec::IntoIter<Row>,
    piece_bytes: usize,
    stored: u64,
}

impl Loading {
    fn new(chunks: mpsc::Receiver<Vec<Row>>) -> Self {
        Loading { chunks, rows: Vec::new().into_iter(), piece_bytes: 0, stored: 0 }
    }

    fn run(mut self, shard: &Shard, runtime: &Handle) -> Result<u64, StorageError> {
        while self.has_more() {
            self.piece_bytes = 0;
            if !shard.load(&mut self)? {
                let mut batch = Batch::new();
                for (key, value) in self.by_ref() {
                    batch.put(key, value);
                    if batch.len() >= COMMIT_OPS_MAX || batch.size_bytes() >= COMMIT_BYTES_MAX {
                        break;
                    }
                }
                runtime.block_on(shard.commit_in_background(batch))?;
            }
        }
        Ok(self.stored)
    }

    fn has_more(&mut self) -> bool {
        while self.rows.as_slice().is_empty() {
            match self.chunks.blocking_recv() {
                Some(rows) => self.rows = rows.into_iter(),
                None => return false,
            }
        }
        true
    }
}

impl Iterator for Loading {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.piece_bytes >= LOAD_PIECE_BYTES || !self.has_more() {
            return None;
        }
        let (key, value) = self.rows.next()?;
        self.piece_bytes += key.len() + value.len();
        self.stored += 1;
        Some((key, value))
    }
}
