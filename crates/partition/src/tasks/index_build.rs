//! Filling a generation of the index with the items that are there already, while writes continue; deleting one.
//!
//! From the moment the partition maintains the generation, every commit keeps it right for the
//! items it writes; the build adds the terms of all others, chunk by chunk in key order. A chunk is
//! read without a lock, and planned under the sequencer with the overlay's changes to its items
//! since, so that no write comes between an item and its terms. A write adds only the terms that
//! are new to its item, so every item is dealt with, as its last queued write leaves it. Adding a
//! term twice changes nothing. Each chunk stores how far the build is, so a restart continues from
//! there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use shardlake_index::IndexLayout;
use shardlake_index::ItemTerms;
use shardlake_model::Result;
use shardlake_storage::{Batch, PendingCommit, Row, SMALL_COMMIT_ROWS, ScanOptions, Shard, StorageError};

use crate::core::Core;
use crate::index::{BuildMarker, PostingOps, marker_key, range_of_ids};
use crate::item::StoredItem;
use crate::keys::{COUNTERS, HEADER, ITEMS, MARKERS, POSTINGS, PartitionUid, after_item, space_range};
use crate::pending::Kept;
use crate::sequencer::Sequencer;
use crate::shape::ContainerSchema;

/// Entries that are expected of an item. The items and entries of one commit, during whose planning
/// writes of the partition wait, follow from the rows that background work may write now. The
/// entries of one item may come in several commits: the generation is not read before it is whole.
const ENTRIES_OF_AN_ITEM: usize = 10;
/// Pause when the shard has no capacity for background work.
const OVERLOADED_PAUSE: Duration = Duration::from_millis(50);

/// How a build ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildEnd {
    Complete,
    /// The generation is not wanted any more.
    Superseded,
}

/// How far a build is.
struct Progress {
    /// Stored with each commit.
    marker: BuildMarker,
    begun: Option<Begun>,
}

/// The item behind the marker, of which some entries are there already.
#[derive(Debug, Clone)]
struct Begun {
    key: Bytes,
    /// A later version begins anew: its writer has added only the terms that were new to the item.
    lsn: u64,
    entries: usize,
}

/// Entries that one commit adds.
struct Entries {
    postings: PostingOps,
    marker: BuildMarker,
    begun: Option<Begun>,
}

impl Entries {
    /// Those of the items behind the marker, until there are enough of them. An item is `None` where it is deleted.
    fn of(
        uid: PartitionUid,
        layout: &IndexLayout,
        items: Vec<(Bytes, Option<StoredItem>)>,
        (marker, begun): (BuildMarker, Option<Begun>),
        entries_max: usize,
    ) -> Entries {
        let mut entries = Entries { postings: PostingOps::default(), marker, begun: None };
        for (key, item) in items {
            if entries.postings.len() >= entries_max {
                break;
            }
            if let Some(item) = item {
                let is_it = |begun: &&Begun| begun.key == key && begun.lsn == item.lsn();
                let there = begun.as_ref().filter(is_it).map_or(0, |begun| begun.entries);
                let (terms, ordinal) = (ItemTerms::of(&item.view(), layout), item.envelope().ordinal);
                let room = entries_max - entries.postings.len();
                for term in terms.iter().skip(there).take(room) {
                    entries.postings.put(uid, layout.id, term, ordinal);
                }
                if terms.len() > there + room {
                    entries.begun = Some(Begun { key, lsn: item.lsn(), entries: there + room });
                    break;
                }
            }
            entries.marker.items += 1;
            entries.marker.last = Some(key[HEADER..].to_vec());
        }
        assert!(entries.postings.len() <= entries_max, "writers wait for no more rows than these");
        entries.postings.seal();
        entries
    }
}

fn maintains(sequencer: &Sequencer, layout: &IndexLayout) -> bool {
    sequencer.maintained.layouts.iter().any(|maintained| maintained.id == layout.id)
}

/// One commit of a build.
enum Chunk {
    Queued { commit: PendingCommit, items: u64 },
    Overloaded,
    End(BuildEnd),
}

/// From now on no query begins to read a generation below this one.
pub(crate) fn retire_indexes_below(core: &Core, id: u16) {
    core.oldest_index.fetch_max(u32::from(id), Ordering::AcqRel);
}

/// Decides which generations every later commit keeps up to date. When this returns, commits planned without them are
/// applied: nothing is written to any other generation any more.
pub(crate) async fn maintain_indexes(core: &Core, layouts: Vec<Arc<IndexLayout>>) -> Result<()> {
    let kept: Vec<u16> = layouts.iter().map(|layout| layout.id).collect();
    let last = {
        let mut sequencer = core.sequencer.hold().await;
        sequencer.maintained.counted.retain(|counted| kept.contains(&counted.index_id));
        sequencer.maintained.layouts = layouts;
        core.last_queued(&sequencer)
    };
    core.wait_for(last).await
}

/// Adds the terms of every item to a generation that the partition maintains. `done` is called
/// with the number of items dealt with since the last call.
pub(crate) async fn build_index(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    layout: &Arc<IndexLayout>,
    done: &(dyn Fn(u64) + Send + Sync),
) -> Result<BuildEnd> {
    let key = marker_key(core.uid, layout.id);
    let stored = core.shard().get(&key).await.map_err(crate::storage_error)?;
    let marker = stored.as_deref().map_or(Ok(BuildMarker::default()), BuildMarker::decode)?;
    done(marker.items);
    let mut progress = Progress { marker, begun: None };
    let end = end_of_items(core).await?;
    let mut work = Shard::paced_work([core.shard()], 1);
    loop {
        match build_chunk(core, (shape, layout), &end, &mut progress, work.rows()).await? {
            Chunk::Queued { commit, items } => {
                commit.await.map_err(crate::storage_error)?;
                done(items);
                work.pause().await;
            }
            Chunk::Overloaded => work.wait(OVERLOADED_PAUSE).await,
            Chunk::End(end) => return Ok(end),
        }
    }
}

async fn build_chunk(
    core: &Core,
    (shape, layout): (&Arc<ContainerSchema>, &Arc<IndexLayout>),
    end: &[u8],
    progress: &mut Progress,
    entries_max: usize,
) -> Result<Chunk> {
    let turn = match core.shard().turn_for(entries_max).await {
        Err(StorageError::Overloaded) => return Ok(Chunk::Overloaded),
        turn => turn.map_err(crate::storage_error)?,
    };
    let Some((rows, kept)) =
        rows_behind(core, &progress.marker, end, (entries_max / ENTRIES_OF_AN_ITEM).max(1)).await?
    else {
        return Ok(Chunk::End(end_of_build(core, layout).await));
    };
    let sequencer = core.sequencer.hold().await;
    if core.is_closed() || !maintains(&sequencer, layout) {
        return Ok(Chunk::End(BuildEnd::Superseded));
    }
    let mut items = Vec::with_capacity(rows.len());
    for (key, value) in rows {
        let value = sequencer.pending.get(&key).unwrap_or(Some(value));
        items.push((key, value.map(|value| StoredItem::decode(value, shape)).transpose()?));
    }
    drop(kept);
    let (uid, layout_id, layout) = (core.uid, layout.id, layout.clone());
    let from = (progress.marker.clone(), progress.begun.take());
    let entries = sequencer.offload(move |_| Entries::of(uid, &layout, items, from, entries_max)).await?;
    let (_sequencer, Entries { postings, marker, begun }) = entries;
    let mut batch = Batch::new();
    postings.add_to(&mut batch);
    batch.put(marker_key(core.uid, layout_id), marker.encode());
    let turn = turn.filter(|_| batch.len() > SMALL_COMMIT_ROWS);
    let commit = match core.shard().commit_in_turn(batch, turn) {
        Err(StorageError::Overloaded) => return Ok(Chunk::Overloaded),
        result => result.map_err(crate::storage_error)?,
    };
    let items = marker.items - progress.marker.items;
    *progress = Progress { marker, begun };
    Ok(Chunk::Queued { commit, items })
}

/// Where the last item lies that a build has to deal with. Commits that were planned without
/// the generation are applied already, so items behind it are right: a build that went on to
/// them would run after its writers without an end.
async fn end_of_items(core: &Core) -> Result<Vec<u8>> {
    let (start, end) = space_range(core.uid, ITEMS);
    let options = ScanOptions { limit: Some(1), reverse: true, ..ScanOptions::default() };
    let mut scan = core.shard().applied_view().scan(start.clone()..end, options);
    let last =
        scan.next_chunk().await.map_err(crate::storage_error)?.and_then(|rows| rows.into_iter().next());
    // The key that follows is the same with a zero byte.
    Ok(last.map_or(start, |(key, _)| [&key[..], &[0]].concat()))
}

/// The next items of a build; `None` at the end. While the second value lasts, the overlay
/// keeps their changes since they were read.
async fn rows_behind(
    core: &Core,
    marker: &BuildMarker,
    end: &[u8],
    items_max: usize,
) -> Result<Option<(Vec<Row>, Kept)>> {
    let kept = core.sequencer.hold().await.pending.keep_behind(core.shard().applied());
    let mut start = space_range(core.uid, ITEMS).0;
    if let Some(last) = &marker.last {
        start = after_item(core.uid, last);
    }
    if &start[..] >= end {
        return Ok(None);
    }
    let options = ScanOptions { limit: Some(items_max), ..ScanOptions::default() };
    let mut scan = core.shard().applied_view().scan(start..end.to_vec(), options);
    let rows = scan.next_chunk().await.map_err(crate::storage_error)?;
    Ok(rows.map(|rows| (rows, kept)))
}

async fn end_of_build(core: &Core, layout: &IndexLayout) -> BuildEnd {
    let is_wanted = maintains(&*core.sequencer.hold().await, layout) && !core.is_closed();
    if is_wanted { BuildEnd::Complete } else { BuildEnd::Superseded }
}

/// Deletes the remains of generations below `end`, except for some, after the partition has
/// stopped maintaining them. Generations from `end` on may be in the making and are left alone.
pub(crate) async fn drop_indexes_below(core: &Core, end: u16, except: &[u16]) -> Result<()> {
    let mut kept: Vec<u16> = except.iter().copied().filter(|id| *id < end).collect();
    kept.sort_unstable();
    // Generations are numbered from 1.
    let mut first = 1;
    for id in kept.into_iter().chain(std::iter::once(end)) {
        if first < id {
            for space in [MARKERS, COUNTERS, POSTINGS] {
                let (start, end) = range_of_ids(core.uid, space, first, id);
                core.shard().drop_range(start, end).await.map_err(crate::storage_error)?;
            }
        }
        first = id.saturating_add(1);
    }
    Ok(())
}
