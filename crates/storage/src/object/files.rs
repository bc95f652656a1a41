//! The files of a state of a shard in a store, for backups: the tables that a manifest names, and that manifest.
//!
//! | file | content |
//! |---|---|
//! | `compacted/ULID.sst` | a table; written once under a name that is never used again |
//! | `wal/N.sst` | the log behind the tables, of a shard that no process has open; a checkpoint needs none |
//! | `history/N-….pack` | the archived log, for restores to a point in time: `log.rs` |
//! | `manifest/N.manifest` | that of the checkpoint, or the newest; it comes last, since a shard without one does not exist |
//!
//! Put back under their paths they are a shard again, at any prefix. Its manifest knows the checkpoints of the original, whose
//! own manifests are not there: [`forget_checkpoints`] before it is opened. Owners' records belong to the place and not to the state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::future::BoxFuture;
use slatedb::VersionedManifest;
use slatedb::admin::Admin;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStore, ObjectStoreExt as _};

use super::errors::{failed, unreadable};
use super::log::Pack;
use super::objects::below;
use super::settings::LOG_KEPT;
use super::{log, whole_log};
use crate::kept_files::Fetch;
use crate::{KeptFile, KeptFiles, StorageError};

#[derive(Debug)]
struct InStore {
    store: Arc<dyn ObjectStore>,
    shard: Path,
    /// Packs of the archived log, by their names.
    packs: BTreeMap<String, Pack>,
}

/// Whether the archived log is copied as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithLog {
    /// Nothing of it was collected for so long, or for [`LOG_KEPT`] where that is longer.
    Yes(Duration),
    No,
}

impl Fetch for InStore {
    fn fetch(&self, path: &str, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, StorageError>> {
        let (place, pack) = (below(&self.shard, path), self.packs.get(path));
        Box::pin(async move {
            if let Some(pack) = pack {
                return pack.read(&self.store, range).await;
            }
            self.store.get_range(&place, range).await.map_err(|error| unreadable(&place, &error))
        })
    }
}

/// The files of a checkpoint, by the number of its manifest.
pub(super) async fn of_checkpoint(
    (store, shard): (&Arc<dyn ObjectStore>, &Path),
    admin: &Admin,
    manifest: u64,
    with_log: WithLog,
) -> Result<KeptFiles, StorageError> {
    let found = admin.read_manifest(Some(manifest)).await.map_err(|error| failed(&error, 0))?;
    let found = found.ok_or(StorageError::CheckpointMissing)?;
    gather((store, shard), &found, Vec::new(), with_log).await
}

/// The files of a shard that no process has open: all acknowledged writes.
///
/// # Errors
/// [`StorageError::Missing`] where there is none.
pub async fn of_closed(
    store: &Arc<dyn ObjectStore>,
    path: &str,
    with_log: WithLog,
) -> Result<KeptFiles, StorageError> {
    let shard = Path::from(path);
    let admin = Admin::builder(shard.clone(), store.clone()).build();
    let found = whole_log::read_manifest(&**store, &shard, &admin).await?;
    let found = found.ok_or_else(|| StorageError::Missing { directory: path.into() })?;
    let is_behind = |name: &&String| {
        let number = name.strip_suffix(".sst").and_then(|number| number.parse::<u64>().ok());
        number.is_some_and(|number| number > found.replay_after_wal_id())
    };
    let sizes = sizes(store, &shard, "wal").await?;
    let log = sizes.iter().filter(|(name, _)| is_behind(name));
    let log = log.map(|(name, size_bytes)| file(format!("wal/{name}"), *size_bytes)).collect();
    gather((store, &shard), &found, log, with_log).await
}

async fn gather(
    (store, shard): (&Arc<dyn ObjectStore>, &Path),
    manifest: &VersionedManifest,
    log: Vec<KeptFile>,
    with_log: WithLog,
) -> Result<KeptFiles, StorageError> {
    if !manifest.external_dbs().is_empty() {
        return Err(StorageError::io(
            "the shard shares tables with another one, and such a one has no backups",
        ));
    }
    let sizes = sizes(store, shard, "compacted").await?;
    let tables: BTreeSet<String> =
        manifest.all_sst_views().map(|view| format!("{}.sst", view.sst.id.value())).collect();
    let mut files = Vec::with_capacity(tables.len() + log.len() + 1);
    for table in tables {
        let size_bytes = sizes.get(&table).copied().ok_or_else(|| StorageError::Corrupt {
            what: format!("the table '{}' is missing", below(shard, &format!("compacted/{table}"))).into(),
        })?;
        files.push(file(format!("compacted/{table}"), size_bytes));
    }
    files.extend(log);
    let packs = match with_log {
        WithLog::Yes(kept_for) => log::packs(store, shard, kept_for.max(LOG_KEPT)).await?,
        WithLog::No => Vec::new(),
    };
    files.extend(packs.iter().map(|pack| file(pack.name.clone(), pack.size_bytes)));
    let name = format!("manifest/{:020}.manifest", manifest.id());
    let place = below(shard, &name);
    let found = store.head(&place).await.map_err(|error| unreadable(&place, &error))?;
    files.push(file(name, found.size));
    let source = InStore {
        store: store.clone(),
        shard: shard.clone(),
        packs: packs.into_iter().map(|pack| (pack.name.clone(), pack)).collect(),
    };
    Ok(KeptFiles::of_store(Arc::new(source), files))
}

/// Makes a copied shard independent of its original: removes the original's checkpoints from its
/// manifest, and ends the log that the manifest names and the copy lacks, since tables have all its
/// rows.
pub async fn forget_checkpoints(store: &Arc<dyn ObjectStore>, path: &str) -> Result<(), StorageError> {
    let shard = Path::from(path);
    let admin = Admin::builder(shard.clone(), store.clone()).build();
    whole_log::end_copied(&**store, &shard, &admin).await?;
    let known = admin.list_checkpoints(None).await.map_err(|error| failed(&error, 0))?;
    for checkpoint in known {
        admin.delete_checkpoint(checkpoint.id).await.map_err(|error| failed(&error, 0))?;
    }
    Ok(())
}

/// Whether there is a shard whose log is whole.
///
/// # Errors
/// [`StorageError::Missing`] where there is none, [`StorageError::Corrupt`] which names an object that is missing.
pub async fn check_log(store: &Arc<dyn ObjectStore>, path: &str) -> Result<(), StorageError> {
    let shard = Path::from(path);
    let admin = Admin::builder(shard.clone(), store.clone()).build();
    let found = whole_log::read_manifest(&**store, &shard, &admin).await?;
    found.map(|_| ()).ok_or_else(|| StorageError::Missing { directory: path.into() })
}

/// By the names of the objects in a folder of the shard.
async fn sizes(
    store: &Arc<dyn ObjectStore>,
    shard: &Path,
    folder: &str,
) -> Result<BTreeMap<String, u64>, StorageError> {
    let folder = below(shard, folder);
    let listed = store
        .list(Some(&folder))
        .map_ok(|object| (object.location.filename().unwrap_or_default().to_owned(), object.size));
    listed.try_collect().await.map_err(|error| unreadable(&folder, &error))
}

fn file(path: String, size_bytes: u64) -> KeptFile {
    KeptFile { path, size_bytes, table: None }
}
