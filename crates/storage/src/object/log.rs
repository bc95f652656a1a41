//! Archived log of a shard in a store: SlateDB's write-ahead objects, which its collector leaves
//! for as long as the log is archived.
//!
//! There may be a million small ones. So a backup has them in *packs*, each of a few hundred:
//!
//! ```text
//! count u64 │ number u64, length u64 │ …  │ the objects, one behind the other          little-endian
//! ```
//!
//! Which objects are in a pack depends on their numbers and lengths alone, so that a later backup
//! finds the packs of an earlier one under the same names. The name identifies the objects of the
//! store from which it was made: copies of an account number their objects alike. The last pack
//! grows, and is called so.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use shardlake_stdx::Clock;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use slatedb::{RowEntry, ValueDeletable, WalReader};
use xxhash_rust::xxh3::Xxh3;

use super::errors::{failed, unreadable};
use super::objects::{LOG, Object, below, place_of};
use super::whole_log::{self, FILLED_MAX};
use crate::wal_archive::Group;
use crate::{Op, StorageError};

/// Limits of a pack: whichever is reached first.
const OBJECTS_MAX: u64 = 256;
const PACK_BYTES_MAX: u64 = 32 << 20;
/// Read at a time.
const READS_MAX: usize = 16;
const NUMBER_BYTES: usize = 8;

/// Some objects that follow one another.
#[derive(Debug)]
pub(super) struct Pack {
    pub name: String,
    pub size_bytes: u64,
    head: Bytes,
    objects: Vec<Object>,
}

/// The log that the store has of a shard, of which everything is kept for `kept_for` at least.
///
/// # Errors
/// [`StorageError::Corrupt`], which names an object that is missing.
pub(super) async fn packs(
    store: &Arc<dyn ObjectStore>,
    shard: &Path,
    kept_for: Duration,
) -> Result<Vec<Pack>, StorageError> {
    let folder = below(shard, LOG);
    let listed = store.list(Some(&folder)).try_filter_map(async |object| Ok(Object::of(object)));
    let mut objects: Vec<Object> = listed.try_collect().await.map_err(|error| unreadable(&folder, &error))?;
    objects.sort_unstable_by_key(|object| object.number);
    let mut filled = 0;
    while let Some(number) = whole_log::check_listed(&**store, shard, kept_whole(&objects, kept_for)).await? {
        if filled == FILLED_MAX {
            return Err(whole_log::unlisted(shard, number));
        }
        filled += 1;
        let place = place_of(shard, number);
        let found = store.head(&place).await.map_err(|error| unreadable(&place, &error))?;
        let before = objects.partition_point(|object| object.number < number);
        objects.splice(before..before, Object::of(found));
    }
    let (mut packs, mut next): (Vec<Pack>, Vec<Object>) = (Vec::new(), Vec::new());
    for object in objects {
        let size_bytes: u64 = next.iter().map(|object| object.size_bytes).sum();
        let is_full = next.last().is_some_and(|last| {
            last.number / OBJECTS_MAX != object.number / OBJECTS_MAX
                || size_bytes + object.size_bytes > PACK_BYTES_MAX
        });
        if is_full {
            packs.push(Pack::of(std::mem::take(&mut next), Grows::No));
        }
        next.push(object);
    }
    if !next.is_empty() {
        packs.push(Pack::of(next, Grows::Yes));
    }
    Ok(packs)
}

/// The objects from the oldest one on that no collector may have removed yet. Before it are fences, which stay for ever, and the
/// rest of a collection that was cut off.
fn kept_whole(objects: &[Object], kept_for: Duration) -> &[Object] {
    let now = i64::try_from(Clock::System.now().milliseconds()).unwrap_or(i64::MAX);
    let kept_ms = i64::try_from(kept_for.as_millis()).unwrap_or(i64::MAX);
    let is_kept = |object: &Object| object.size_bytes > 0 && now.saturating_sub(object.stored_ms) < kept_ms;
    let first = objects.iter().position(is_kept).unwrap_or(objects.len());
    &objects[first..]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grows {
    Yes,
    No,
}

impl Pack {
    fn of(objects: Vec<Object>, grows: Grows) -> Pack {
        assert!(
            objects.is_sorted_by(|left, right| left.number < right.number),
            "the objects of a pack are in the order of the log"
        );
        let (mut head, mut sum) = (BytesMut::new(), Xxh3::new());
        head.put_u64_le(objects.len() as u64);
        for object in &objects {
            head.put_u64_le(object.number);
            head.put_u64_le(object.size_bytes);
            sum.update(object.version.as_bytes());
        }
        sum.update(&head);
        let first = objects.first().map_or(0, |object| object.number);
        let version = if grows == Grows::Yes { "open".to_owned() } else { format!("{:016x}", sum.digest()) };
        let size_bytes = head.len() as u64 + objects.iter().map(|object| object.size_bytes).sum::<u64>();
        Pack { name: format!("history/{first:020}-{version}.pack"), size_bytes, head: head.freeze(), objects }
    }

    pub async fn read(&self, store: &Arc<dyn ObjectStore>, range: Range<u64>) -> Result<Bytes, StorageError> {
        let mut start = self.head.len() as u64;
        let mut read = BytesMut::new();
        read.extend_from_slice(&self.head[part_of(&range, 0..start)]);
        let mut parts = Vec::new();
        for object in &self.objects {
            let part = part_of(&range, start..start + object.size_bytes);
            start += object.size_bytes;
            if !part.is_empty() {
                parts.push((object.place.clone(), part.start as u64..part.end as u64));
            }
        }
        assert_eq!(start, self.size_bytes, "a pack is its head and its objects");
        let reads = parts.into_iter().map(|(place, part)| async move {
            store.get_range(&place, part).await.map_err(|error| unreadable(&place, &error))
        });
        let parts: Vec<Bytes> = stream::iter(reads).buffered(READS_MAX).try_collect().await?;
        parts.iter().for_each(|part| read.extend_from_slice(part));
        Ok(read.freeze())
    }
}

/// The part of range `of` that `range` covers, counted from the start of `of`.
fn part_of(range: &Range<u64>, of: Range<u64>) -> Range<usize> {
    let (start, end) = (range.start.clamp(of.start, of.end), range.end.clamp(of.start, of.end));
    (start - of.start) as usize..(end - of.start) as usize
}

/// The objects in a pack, in their order.
pub(crate) fn unpack(mut content: Bytes) -> Result<Vec<(u64, Bytes)>, StorageError> {
    let damaged =
        || StorageError::Corrupt { what: "a pack of the log has another length than it says".into() };
    if content.len() < NUMBER_BYTES {
        return Err(damaged());
    }
    let count = content.get_u64_le() as usize;
    let head_bytes = count.checked_mul(2 * NUMBER_BYTES).filter(|length| *length <= content.len());
    let mut head = content.split_to(head_bytes.ok_or_else(damaged)?);
    let mut objects = Vec::with_capacity(count);
    for _ in 0..count {
        let (number, length) = (head.get_u64_le(), head.get_u64_le());
        let length = usize::try_from(length).ok().filter(|length| *length <= content.len());
        objects.push((number, content.split_to(length.ok_or_else(damaged)?)));
    }
    if content.is_empty() { Ok(objects) } else { Err(damaged()) }
}

/// The groups of one object, in their order.
pub(crate) async fn groups_of(
    (number, content): (u64, Bytes),
    key: &[u8],
) -> Result<Vec<Group>, StorageError> {
    if content.is_empty() {
        // The fence of an owner.
        return Ok(Vec::new());
    }
    let (store, shard) = (Arc::new(InMemory::new()), Path::from("shard"));
    let place = below(&shard, &format!("{LOG}/{number:020}.sst"));
    store.put(&place, PutPayload::from_bytes(content)).await.map_err(|error| unreadable(&place, &error))?;
    let failed = |error: slatedb::Error| failed(&error, 0);
    let mut rows = WalReader::new(shard, store).get(number).iterator().await.map_err(failed)?;
    let mut found: Vec<RowEntry> = Vec::new();
    while let Some(row) = rows.next().await.map_err(failed)? {
        found.push(row);
    }
    found.sort_by_key(|row| row.seq);
    let groups = found.chunk_by(|row, next| row.seq == next.seq);
    groups.map(|group| Group::new(group.iter().map(op).collect::<Result<_, _>>()?, key)).collect()
}

fn op(row: &RowEntry) -> Result<Op, StorageError> {
    let key = row.key.clone();
    match &row.value {
        ValueDeletable::Value(value) => Ok(Op::Put { key, value: value.clone() }),
        ValueDeletable::Tombstone => Ok(Op::Delete { key }),
        ValueDeletable::Merge(_) => {
            Err(StorageError::Corrupt { what: "the log holds something else than writes".into() })
        }
    }
}
