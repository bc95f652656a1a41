//! Work on whole ranges, in the background of other commits: dropping, filling and measuring.
//!
//! Dropping a range goes through ordinary commits of bounded size, one at a time, so that
//! foreground commits find room between them and memory stays bounded. Filling goes past the log
//! where the engine has a way for that, in pieces. Neither is atomic as a whole: repeating an
//! interrupted drop completes it; the caller of an interrupted fill drops its rows.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{Batch, PendingCommit, Row, ScanOptions, Shard, StorageError};

const COMMIT_OPS_MAX: usize = 2048;
const COMMIT_BYTES_MAX: usize = 1024 * 1024;
/// Divisor of the share of a drop: no client waits for a drop, but a client waits for the copy that
/// runs concurrently.
const DROP_PATIENCE: u32 = 8;
/// Rows of one piece of a load, which becomes a table of its own.
const LOAD_PIECE_BYTES: usize = 48 * 1024 * 1024;
/// Chunks on their way to the thread that loads.
const LOAD_CHUNKS_MAX: usize = 8;
/// Commits of a load that are not durable yet, where the engine has no other way.
const LOAD_BYTES_UNDER_WAY_MAX: usize = 32 * 1024 * 1024;
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
        let mut work = Shard::paced_work([self], DROP_PATIENCE);
        loop {
            let rows = work.rows();
            // A fresh snapshot each time, so that a long drop does not hold back the reclaiming of
            // deleted rows.
            let options = ScanOptions { limit: Some(rows), ..ScanOptions::default() };
            let mut scan = self.snapshot().scan(start.clone()..end.clone(), options);
            let mut batch = Batch::new();
            while let Some(rows) = scan.next_chunk().await? {
                rows.into_iter().for_each(|(key, _)| batch.delete(key));
            }
            let Some(last) = batch.iter().next_back() else { return Ok(deleted) };
            assert!(*last.key() >= start, "a drop moves forward");
            start = [last.key(), &[0][..]].concat();
            deleted += batch.len() as u64;
            self.commit_in_background(batch).await?;
            work.pause().await;
        }
    }

    /// Drops every key with the prefix, whose writers have ended. Tables that have no other keys
    /// are removed from the list of tables. The remaining keys are deleted as [`Shard::drop_range`]
    /// does, up to `end`, the first key behind the prefix. Views may or may not show the keys from
    /// then on.
    pub async fn drop_prefix(&self, prefix: Vec<u8>, end: Vec<u8>) -> Result<(), StorageError> {
        // Commits are applied in order, so no earlier one is in the queue after this.
        self.commit_in_background(Batch::new()).await?;
        let whole = prefix.clone();
        if self.work(move |engine| engine.drop_prefix(&whole)).await? {
            return Ok(());
        }
        self.drop_range(prefix, end).await.map(drop)
    }

    /// Starts loading rows whose keys ascend and are not in use: fills a partition much faster than
    /// commits.
    pub fn bulk_load(&self) -> BulkLoad {
        let (sender, receiver) = mpsc::channel(LOAD_CHUNKS_MAX);
        let shard = self.clone();
        let task = match shard.loads() {
            true => tokio::task::spawn_blocking(move || Loading::new(receiver).run(&shard)),
            false => tokio::spawn(Commits::new(shard).run(receiver)),
        };
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
        self.queue_in_background(batch).await?.await
    }

    async fn queue_in_background(&self, batch: Batch) -> Result<PendingCommit, StorageError> {
        loop {
            let turn = self.turn_for(batch.len()).await;
            match turn.and_then(|turn| self.commit_in_turn(batch.clone(), turn)) {
                Err(StorageError::Overloaded) => tokio::time::sleep(OVERLOADED_PAUSE).await,
                Err(StorageError::Unavailable { retry_after }) => tokio::time::sleep(retry_after).await,
                queued => return queued,
            }
        }
    }

    /// Commits without waiting for a permit: for a caller that holds a resource which permit
    /// holders may wait for.
    pub async fn commit_without_turn(&self, batch: Batch) -> Result<(), StorageError> {
        loop {
            match self.commit(batch.clone()) {
                Ok(commit) => return commit.await,
                Err(StorageError::Overloaded) => tokio::time::sleep(OVERLOADED_PAUSE).await,
                Err(StorageError::Unavailable { retry_after }) => tokio::time::sleep(retry_after).await,
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
    /// `None` once the result was returned.
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

/// A load of an engine that knows no other way than commits. Several are under way at a time, since each may take as long
/// as a far store does.
struct Commits {
    shard: Shard,
    batch: Batch,
    under_way: VecDeque<(PendingCommit, usize)>,
    bytes_under_way: usize,
    stored: u64,
}

impl Commits {
    fn new(shard: Shard) -> Self {
        Commits { shard, batch: Batch::new(), under_way: VecDeque::new(), bytes_under_way: 0, stored: 0 }
    }

    async fn run(mut self, chunks: mpsc::Receiver<Vec<Row>>) -> Result<u64, StorageError> {
        let mut outcome = self.commit_all(chunks).await;
        // Every commit ends before the load does, also after a failure.
        while let Some((commit, _)) = self.under_way.pop_front() {
            outcome = outcome.and(commit.await);
        }
        outcome.map(|()| self.stored)
    }

    async fn commit_all(&mut self, mut chunks: mpsc::Receiver<Vec<Row>>) -> Result<(), StorageError> {
        while let Some(rows) = chunks.recv().await {
            for (key, value) in rows {
                self.batch.put(key, value);
                if self.batch.len() >= COMMIT_OPS_MAX || self.batch.size_bytes() >= COMMIT_BYTES_MAX {
                    self.hand_over().await?;
                }
            }
        }
        self.hand_over().await
    }

    async fn hand_over(&mut self) -> Result<(), StorageError> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        self.stored += batch.len() as u64;
        let size_bytes = batch.size_bytes();
        self.under_way.push_back((self.shard.queue_in_background(batch).await?, size_bytes));
        self.bytes_under_way += size_bytes;
        self.wait(LOAD_BYTES_UNDER_WAY_MAX).await
    }

    /// Returns when at most so much is under way.
    async fn wait(&mut self, bytes_max: usize) -> Result<(), StorageError> {
        while self.bytes_under_way > bytes_max {
            let Some((commit, size_bytes)) = self.under_way.pop_front() else { break };
            assert!(self.bytes_under_way >= size_bytes, "the bytes of each commit under way are counted");
            commit.await?;
            self.bytes_under_way -= size_bytes;
        }
        Ok(())
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

    fn run(mut self, shard: &Shard) -> Result<u64, StorageError> {
        while self.has_more() {
            self.piece_bytes = 0;
            shard.load(&mut self)?;
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
