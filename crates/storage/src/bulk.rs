//! Work on whole ranges, in the background of other commits: dropping, filling and measuring.
//!
//! Everything goes through ordinary commits of bounded size, one at a time, so that foreground commits find room between
//! them and memory stays bounded. None of it is atomic as a whole; repeating a drop or a fill that broke off completes it.

use std::time::Duration;

use crate::{Batch, Row, ScanOptions, Shard, StorageError};

const COMMIT_OPS_MAX: usize = 2048;
const COMMIT_BYTES_MAX: usize = 1024 * 1024;
const OVERLOADED_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeStats {
    pub keys: u64,
    /// Keys and values, before compression.
    pub size_bytes: u64,
}

impl Shard {
    /// Deletes every key of `[start, end)`, and gives how many there were. The caller has stopped writing to the range:
    /// keys written behind the progress of the drop stay.
    pub async fn drop_range(&self, mut start: Vec<u8>, end: Vec<u8>) -> Result<u64, StorageError> {
        let mut deleted = 0;
        loop {
            // A fresh snapshot each time, so that a long drop does not hold back the reclaiming of what it deletes.
            let options = ScanOptions { limit: Some(COMMIT_OPS_MAX), ..ScanOptions::default() };
            let mut scan = self.snapshot().scan(start.clone()..end.clone(), options);
            let mut batch = Batch::new();
            while let Some(rows) = scan.next_chunk().await? {
                rows.into_iter().for_each(|(key, _)| batch.delete(key));
            }
            let Some(last) = batch.iter().next_back() else { return Ok(deleted) };
            start = [last.key(), &[0][..]].concat();
            deleted += batch.len() as u64;
            self.commit_in_background(batch).await?;
        }
    }

    /// Stores rows, and gives how many. Any order works; ascending order is the fastest.
    pub async fn ingest(&self, rows: impl IntoIterator<Item = Row>) -> Result<u64, StorageError> {
        let mut stored = 0;
        let mut batch = Batch::new();
        for (key, value) in rows {
            batch.put(key, value);
            if batch.len() >= COMMIT_OPS_MAX || batch.size_bytes() >= COMMIT_BYTES_MAX {
                stored += batch.len() as u64;
                self.commit_in_background(std::mem::take(&mut batch)).await?;
            }
        }
        stored += batch.len() as u64;
        self.commit_in_background(batch).await?;
        Ok(stored)
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

    /// Commits and waits; foreground commits come first when the queue is full.
    async fn commit_in_background(&self, batch: Batch) -> Result<(), StorageError> {
        loop {
            match self.commit(batch.clone()) {
                Ok(commit) => return commit.await,
                Err(StorageError::Overloaded) => tokio::time::sleep(OVERLOADED_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}
