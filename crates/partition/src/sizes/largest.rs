//! Largest logical partitions of a physical one, for descriptions and lists.
//!
//! The list is kept from the first request on. Then the sizes in storage are walked once,
//! concurrently with writes, and from there on every commit keeps the list right: it holds a
//! bounded number of logical partitions, and the size of the largest partition that it leaves out.
//! Partitions held at or above that size are certainly among the largest. Where deletes leave too
//! few of them, the sizes are walked again.
//!
//! Why the walk misses nothing: commits are noted from before its view. At its end the partitions
//! that it found and no commit has noted are looked up again, in the overlay and in the values
//! fetched for it. Partitions written meanwhile and not noted were left out as too small.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_model::Result;
use shardlake_routing::LogicalKey;
use shardlake_storage::{ScanOptions, View};

use super::LogicalSize;
use crate::keys::{self, HEADER, PartitionUid};
use crate::partition::Partition;
use crate::read_set::ReadSet;

/// Logical partitions that can be asked for.
const ASKED_MAX: usize = 32;
/// Held after a cut, and at most before one: the difference pays for the cost of a cut.
const HELD: usize = 2 * ASKED_MAX;
const HELD_MAX: usize = 2 * HELD;

/// A logical partition and its size.
#[derive(Debug, Clone)]
pub struct SizedKey {
    pub key: LogicalKey,
    pub size: LogicalSize,
}

#[derive(Debug, Default)]
pub(crate) struct Largest {
    /// By the part of their keys that names them.
    held: FxHashMap<Box<[u8]>, LogicalSize>,
    /// No logical partition that is not held has more bytes.
    left_out_bytes: u64,
    is_complete: bool,
}

impl Largest {
    pub fn note(&mut self, key: &[u8], size: LogicalSize) {
        if size.items == 0 {
            self.held.remove(key);
        } else if let Some(held) = self.held.get_mut(key) {
            *held = size;
        } else if size.size_bytes > self.left_out_bytes {
            self.held.insert(key.into(), size);
            if self.held.len() > HELD_MAX {
                self.cut();
            }
        }
    }

    /// Completes the list: from now on a partition that is not held was left out or does not exist.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    fn cut(&mut self) {
        let mut held: Vec<_> = std::mem::take(&mut self.held).into_iter().collect();
        // Keys differ, so that exactly so many stay, however many sizes are equal.
        held.select_nth_unstable_by(HELD, |(key, size), (other_key, other)| {
            other.size_bytes.cmp(&size.size_bytes).then_with(|| key.cmp(other_key))
        });
        self.left_out_bytes = self.left_out_bytes.max(held[HELD].1.size_bytes);
        held.truncate(HELD);
        self.held = held.into_iter().collect();
    }

    /// The largest ones, up to `count`; `None` where the list does not contain even `needed`
    /// certain ones.
    pub fn first(&self, count: usize, needed: usize) -> Option<Vec<(&[u8], LogicalSize)>> {
        let certain = self.held.iter().filter(|(_, size)| size.size_bytes >= self.left_out_bytes);
        let mut certain: Vec<_> = certain.map(|(key, size)| (&key[..], *size)).collect();
        if !self.is_complete || (certain.len() < needed && self.left_out_bytes > 0) {
            return None;
        }
        certain.sort_unstable_by(|(key, size), (other_key, other)| {
            other.size_bytes.cmp(&size.size_bytes).then(key.cmp(other_key))
        });
        certain.truncate(count);
        Some(certain)
    }
}

impl Partition {
    /// The largest logical partitions, largest first, at most 32. The first time, and rarely again, it takes as long as
    /// reading all sizes.
    pub async fn largest_logical_partitions(&self, count: usize) -> Result<Vec<SizedKey>> {
        let count = count.min(ASKED_MAX);
        if self.shard().is_poisoned() {
            // The sequencer's list counts commits that failed.
            self.check_open()?;
            let mut stored = walk(&self.shard().snapshot(), self.uid).await?;
            stored.complete();
            return sized_keys(stored.first(count, 0).unwrap_or_default());
        }
        if let Some(known) = self.known_largest(count, count).await? {
            return Ok(known);
        }
        let _one_walk = self.size_walk.lock().await;
        if let Some(known) = self.known_largest(count, count).await? {
            return Ok(known);
        }
        self.find_largest().await?;
        // Deletes while the sizes were read may have left fewer than asked for: those are still the largest.
        Ok(self.known_largest(count, 0).await?.unwrap_or_default())
    }

    async fn known_largest(&self, count: usize, needed: usize) -> Result<Option<Vec<SizedKey>>> {
        let sequencer = self.sequencer.hold().await;
        self.check_open()?;
        let Some(first) = sequencer.largest.as_ref().and_then(|largest| largest.first(count, needed)) else {
            return Ok(None);
        };
        let keys: Vec<Vec<u8>> = first.into_iter().map(|(key, _)| key.to_vec()).collect();
        drop(sequencer);
        self.acknowledged_sizes(&keys).await.map(Some)
    }

    /// The list knows which are the largest, but counts commits that may still fail: the sizes themselves come from storage.
    async fn acknowledged_sizes(&self, keys: &[Vec<u8>]) -> Result<Vec<SizedKey>> {
        let stored_keys: Vec<_> =
            keys.iter().map(|key| keys::with_header(self.uid, keys::SIZES, key)).collect();
        let stored = self.shard().snapshot().multi_get(&stored_keys).await.map_err(crate::storage_error)?;
        let mut sizes = Vec::with_capacity(keys.len());
        for (key, stored) in keys.iter().zip(stored) {
            if let Some(stored) = stored {
                sizes.push((&key[..], LogicalSize::decode(&stored)?));
            }
        }
        sizes.sort_unstable_by(|(key, size), (other_key, other)| {
            other.size_bytes.cmp(&size.size_bytes).then(key.cmp(other_key))
        });
        sized_keys(sizes)
    }

    async fn find_largest(&self) -> Result<()> {
        {
            let mut sequencer = self.sequencer.hold().await;
            self.check_open()?;
            sequencer.largest = Some(Box::default());
        }
        // A view that shows every commit before the first one noted.
        self.settle().await?;
        let found = walk(&self.shard().view(), self.uid).await?;
        let stored_key = |key: &[u8]| Bytes::from(keys::with_header(self.uid, keys::SIZES, key));
        let mut reads = ReadSet::default();
        self.fetch_alone(&mut reads, found.held.keys().map(|key| stored_key(key)).collect()).await?;
        let mut sequencer = self.sequencer.hold().await;
        self.check_open()?;
        // Only the holder of the lock of walks replaces it.
        let Some(mut largest) = sequencer.largest.take() else { return Ok(()) };
        for key in found.held.keys().filter(|key| !largest.held.contains_key(*key)).collect::<Vec<_>>() {
            let stored_key = stored_key(key);
            let queued = sequencer.pending.get(&stored_key);
            if let Some(size) = queued.unwrap_or_else(|| reads.fetched(&stored_key)) {
                largest.note(key, LogicalSize::decode(&size)?);
            }
        }
        largest.left_out_bytes = largest.left_out_bytes.max(found.left_out_bytes);
        largest.complete();
        sequencer.largest = Some(largest);
        Ok(())
    }
}

fn sized_keys(sizes: Vec<(&[u8], LogicalSize)>) -> Result<Vec<SizedKey>> {
    let sized = sizes.into_iter().map(|(key, size)| {
        let key = keys::parse_size_key(key).ok_or_else(crate::malformed_key)?;
        Ok(SizedKey { key, size })
    });
    sized.collect()
}

async fn walk(snapshot: &View, uid: PartitionUid) -> Result<Largest> {
    let (start, end) = keys::space_range(uid, keys::SIZES);
    let mut scan = snapshot.scan(start..end, ScanOptions::default());
    let mut largest = Largest::default();
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, value) in rows {
            largest.note(&key[HEADER..], LogicalSize::decode(&value)?);
        }
        tokio::task::yield_now().await;
    }
    Ok(largest)
}
