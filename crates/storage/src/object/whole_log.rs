//! Refuses a log with a missing object, before anything reads or copies the log.
//!
//! An owner stores the objects of its log one after the other, under numbers without a gap. SlateDB relies on that and looks for the
//! end of the log by probing numbers: where an object was lost, a probe may meet the hole and take it for the end. Everything behind the
//! hole, all of it acknowledged, would then be passed over; an owner would even put its fence into the hole. So all readers and
//! owners list the log first.
//!
//! ```text
//! manifest: tables have everything up to 10; the log was stored up to 14 at least
//! wal/      10 11 12 __ 14 15         13 is missing
//! wal/      10 11 12 13               14 is missing: the manifest proves that it was stored
//! wal/      10 11 12 13 14            whole, also where 15 was lost, which has no record
//! wal/                                a copy of a checkpoint, whose tables have everything
//! ```
//!
//! The loss of the newest objects is known as far as a manifest or a later object proves that they were stored: a manifest is written with
//! each flush of a memtable, a fence with each start. Which objects follow the last proof is not recorded anywhere: that would be
//! one more request for each write.
//!
//! A list may be read while an owner stores objects and a collector removes them. So a hole is
//! believed only where the store reports the object itself as missing, and the newest manifest
//! still needs it.

use futures::TryStreamExt as _;
use slatedb::VersionedManifest;
use slatedb::admin::Admin;
use slatedb::object_store::path::Path;
use slatedb::object_store::{self, ObjectStore, ObjectStoreExt as _, PutPayload};

use super::errors::{failed, unreadable};
use super::objects::{LOG, Object, below, place_of};
use crate::StorageError;

/// Lists of one log at most: a list that lacks an object which the store has is read again.
const LISTS_MAX: u32 = 10;
/// Objects that lists lack and the store has.
pub(super) const FILLED_MAX: u32 = 1000;

/// The newest manifest of a shard whose log is whole behind it; `None` where there is no shard.
///
/// # Errors
/// [`StorageError::Corrupt`], which names the missing object.
pub(super) async fn read_manifest(
    store: &dyn ObjectStore,
    shard: &Path,
    admin: &Admin,
) -> Result<Option<VersionedManifest>, StorageError> {
    Ok(read(store, shard, admin).await?.map(|(manifest, _)| manifest))
}

/// The newest manifest with the numbers of the log, from the last object on that tables have.
pub(super) async fn read(
    store: &dyn ObjectStore,
    shard: &Path,
    admin: &Admin,
) -> Result<Option<(VersionedManifest, Vec<u64>)>, StorageError> {
    let newest = async || admin.read_manifest(None).await.map_err(|error| failed(&error, 0));
    let (mut found, mut filled) = (0, 0);
    for _ in 0..LISTS_MAX {
        let Some(manifest) = newest().await? else { return Ok(None) };
        let mut log = list(store, shard, manifest.replay_after_wal_id()).await?;
        while let Some(hole) = find_hole(&manifest, &log) {
            found = hole.number;
            if is_missing(store, &place_of(shard, hole.number)).await? {
                let is_needed =
                    newest().await?.is_none_or(|newest| newest.replay_after_wal_id() < hole.number);
                if is_needed {
                    return Err(hole.error(shard));
                }
                break;
            }
            // A directory is listed in no order: a new object may be listed without an object that
            // was stored before it.
            if filled == FILLED_MAX {
                return Err(unlisted(shard, found));
            }
            filled += 1;
            let place = log.partition_point(|number| *number < hole.number);
            log.insert(place, hole.number);
            debug_assert!(
                log.is_sorted_by(|left, right| left < right),
                "each object of a log is listed once"
            );
        }
        if find_hole(&manifest, &log).is_none() {
            return Ok(Some((manifest, log)));
        }
    }
    Err(unlisted(shard, found))
}

pub(super) fn unlisted(shard: &Path, number: u64) -> StorageError {
    StorageError::io(format!("the store has '{}' and does not list it", place_of(shard, number)))
}

/// Stores empty objects, as the fences of owners are, under the numbers of a log that the manifest of a copied checkpoint knows and the
/// copy has not. Otherwise the first owner would begin its log before the end that the manifest knows.
pub(super) async fn end_copied(
    store: &dyn ObjectStore,
    shard: &Path,
    admin: &Admin,
) -> Result<(), StorageError> {
    let Some(manifest) = admin.read_manifest(None).await.map_err(|error| failed(&error, 0))? else {
        return Ok(());
    };
    let in_tables = manifest.replay_after_wal_id();
    if !list(store, shard, in_tables).await?.is_empty() {
        return Ok(());
    }
    for number in in_tables + 1..manifest.next_wal_sst_id() {
        let place = place_of(shard, number);
        store.put(&place, PutPayload::new()).await.map_err(|error| unreadable(&place, &error))?;
    }
    Ok(())
}

/// The first number that is missing between the objects of a list, which are in their order; `None` where the store has it after all.
pub(super) async fn check_listed(
    store: &dyn ObjectStore,
    shard: &Path,
    objects: &[Object],
) -> Result<Option<u64>, StorageError> {
    let gap = objects.windows(2).find(|pair| pair[1].number != pair[0].number + 1);
    let Some([before, after]) = gap else { return Ok(None) };
    let hole = Hole { number: before.number + 1, proof: Proof::Object(after.number) };
    match is_missing(store, &place_of(shard, hole.number)).await? {
        true => Err(hole.error(shard)),
        false => Ok(Some(hole.number)),
    }
}

struct Hole {
    number: u64,
    proof: Proof,
}

/// Why an object must have been stored.
enum Proof {
    /// A later object is there.
    Object(u64),
    Manifest(u64),
}

impl Hole {
    fn error(&self, shard: &Path) -> StorageError {
        let place = place_of(shard, self.number);
        let proof = match self.proof {
            Proof::Object(number) => format!("though object {number} follows"),
            Proof::Manifest(id) => format!("though manifest {id} records that it was stored"),
        };
        StorageError::Corrupt {
            what: format!("'{place}' is missing from the log, {proof}: acknowledged writes are lost").into(),
        }
    }
}

fn find_hole(manifest: &VersionedManifest, listed: &[u64]) -> Option<Hole> {
    let in_tables = manifest.replay_after_wal_id();
    // A collector leaves the last object that tables have. Where that is missing as well, this is a copy of a checkpoint.
    let last = listed.last().copied()?;
    let stored = manifest.next_wal_sst_id().saturating_sub(1);
    let mut behind = listed.iter().copied().filter(|number| *number > in_tables);
    let missing = (in_tables + 1..=last.max(stored)).find(|number| behind.next() != Some(*number));
    missing.map(|number| {
        let proof = if number < last { Proof::Object(last) } else { Proof::Manifest(manifest.id()) };
        Hole { number, proof }
    })
}

/// The numbers of the log from one on, in their order.
async fn list(store: &dyn ObjectStore, shard: &Path, from: u64) -> Result<Vec<u64>, StorageError> {
    let folder = below(shard, LOG);
    let before = place_of(shard, from.saturating_sub(1));
    let listed = store
        .list_with_offset(Some(&folder), &before)
        .try_filter_map(async |object| Ok(Object::of(object).map(|object| object.number)));
    let mut numbers: Vec<u64> = listed.try_collect().await.map_err(|error| unreadable(&folder, &error))?;
    numbers.retain(|number| *number >= from);
    numbers.sort_unstable();
    Ok(numbers)
}

async fn is_missing(store: &dyn ObjectStore, place: &Path) -> Result<bool, StorageError> {
    match store.head(place).await {
        Ok(_) => Ok(false),
        Err(object_store::Error::NotFound { .. }) => Ok(true),
        Err(error) => Err(unreadable(place, &error)),
    }
}
