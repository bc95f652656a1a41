//! Sizes that are asked for: of one logical partition, and of the largest, for descriptions and lists.
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
//!
//! Where a partition is to be cut so that about half of its bytes lie on either side, for splits by storage.
//!
//! One walk over the sizes in the order of the hash, which stops at the middle. A cut never goes through a logical
//! partition, nor between two whose keys hash to the same place.

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_routing::{Epk, LogicalKey};
use shardlake_storage::{ScanOptions, View};

use crate::commit::fetch_alone;
use crate::core::Core;
use crate::keys::{self, HEADER, PartitionUid};
use crate::read_set::ReadSet;
use crate::sizes::{ASKED_MAX, Largest, LogicalSize};

/// A logical partition and its size.
#[derive(Debug, Clone)]
pub struct SizedKey {
    pub key: LogicalKey,
    pub size: LogicalSize,
}

/// The size of a logical partition, as the engine shows it now.
pub(crate) async fn logical_size(core: &Core, logical: &LogicalKey) -> Result<LogicalSize> {
    let key = keys::size_key(core.uid, logical);
    let stored = core.shard().get(&key).await.map_err(crate::storage_error)?;
    core.check_open()?;
    stored.as_deref().map_or(Ok(LogicalSize::default()), LogicalSize::decode)
}

/// The largest logical partitions, largest first, at most 32. The first time, and rarely again, it takes as long as
/// reading all sizes.
pub(crate) async fn largest_logical_partitions(core: &Core, count: usize) -> Result<Vec<SizedKey>> {
    let count = count.min(ASKED_MAX);
    if core.shard().is_poisoned() {
        // The sequencer's list counts commits that failed.
        core.check_open()?;
        let mut stored = walk(&core.shard().snapshot(), core.uid).await?;
        stored.complete();
        return sized_keys(stored.first(count, 0).unwrap_or_default());
    }
    if let Some(known) = known_largest(core, count, count).await? {
        return Ok(known);
    }
    let _one_walk = core.size_walk.lock().await;
    if let Some(known) = known_largest(core, count, count).await? {
        return Ok(known);
    }
    find_largest(core).await?;
    // Deletes while the sizes were read may have left fewer than asked for: those are still the largest.
    Ok(known_largest(core, count, 0).await?.unwrap_or_default())
}

async fn known_largest(core: &Core, count: usize, needed: usize) -> Result<Option<Vec<SizedKey>>> {
    let sequencer = core.sequencer.hold().await;
    core.check_open()?;
    let Some(first) = sequencer.largest.as_ref().and_then(|largest| largest.first(count, needed)) else {
        return Ok(None);
    };
    let keys: Vec<Vec<u8>> = first.into_iter().map(|(key, _)| key.to_vec()).collect();
    drop(sequencer);
    acknowledged_sizes(core, &keys).await.map(Some)
}

/// The list knows which are the largest, but counts commits that may still fail: the sizes themselves come from storage.
async fn acknowledged_sizes(core: &Core, keys: &[Vec<u8>]) -> Result<Vec<SizedKey>> {
    let stored_keys: Vec<_> = keys.iter().map(|key| keys::with_header(core.uid, keys::SIZES, key)).collect();
    let stored = core.shard().snapshot().multi_get(&stored_keys).await.map_err(crate::storage_error)?;
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

async fn find_largest(core: &Core) -> Result<()> {
    {
        let mut sequencer = core.sequencer.hold().await;
        core.check_open()?;
        sequencer.largest = Some(Box::default());
    }
    // A view that shows every commit before the first one noted.
    core.settle().await?;
    let found = walk(&core.shard().view(), core.uid).await?;
    let stored_key = |key: &[u8]| Bytes::from(keys::with_header(core.uid, keys::SIZES, key));
    let mut reads = ReadSet::default();
    fetch_alone(core, &mut reads, found.held.keys().map(|key| stored_key(key)).collect()).await?;
    let mut sequencer = core.sequencer.hold().await;
    core.check_open()?;
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

/// The first position of the upper half; `None` where everything lies in one place. Writes that
/// continue meanwhile move the middle by their size.
pub(crate) async fn size_median(core: &Core) -> Result<Option<Epk>> {
    let half = core.size_bytes() / 2;
    let (start, end) = keys::space_range(core.uid, keys::SIZES);
    let mut scan = core.shard().snapshot().scan(start..end, ScanOptions::default());
    let mut below = 0;
    let mut place: Option<Epk> = None;
    // The last place at which a cut leaves less than half below it.
    let mut early: Option<(Epk, u64)> = None;
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, value) in rows {
            let epk = keys::parse_size_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?.epk;
            let begins = place.as_ref().is_some_and(|last| *last != epk);
            if begins && below >= half {
                return Ok(Some(nearer(half, early, (epk, below))));
            }
            if begins {
                early = Some((epk.clone(), below));
            }
            place = Some(epk);
            below += LogicalSize::decode(&value)?.size_bytes;
        }
        tokio::task::yield_now().await;
    }
    core.check_open()?;
    Ok(early.map(|(epk, _)| epk))
}

fn nearer(half: u64, early: Option<(Epk, u64)>, late: (Epk, u64)) -> Epk {
    match early {
        Some((epk, below)) if half.abs_diff(below) < half.abs_diff(late.1) => epk,
        _ => late.0,
    }
}
