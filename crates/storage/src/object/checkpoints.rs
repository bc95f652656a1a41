//! Reading a shard without owning it, and states that are kept by name: checkpoints of the manifest, which keep the tables that they name from being collected.

use std::sync::Arc;

use futures::future::BoxFuture;
use slatedb::admin::Admin;
use slatedb::config::{CheckpointOptions, CheckpointScope, DbReaderOptions};
use slatedb::db_cache::DbCache;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{Checkpoint, DbReader, DbReaderMode};

use super::compactor::Drops;
use super::database::Database;
use super::errors::failed;
use super::filters::IsScanned;
use super::options::Place;
use super::settings::{self, SharedCache, Uid};
use super::view::ObjectView;
use super::{files, filters, whole_log};
use crate::{Answer, Batch, Engine, EngineView, KeptFiles, Shard, ShardOptions, StorageError};

/// A checkpoint is read seldom, while the shard itself is in use.
const CACHE_BYTES: u64 = 16 << 20;

pub(super) async fn make(database: &Database, name: &str) -> Result<(), StorageError> {
    if find(database, name).await?.is_some() {
        return Err(StorageError::CheckpointExists);
    }
    let options = CheckpointOptions { name: Some(name.to_owned()), ..CheckpointOptions::default() };
    let made = database.slate().create_checkpoint(CheckpointScope::All, &options).await;
    made.map(|_| ()).map_err(|error| database.failed(&error))
}

/// Freezes the applied state; the returned future stores it.
pub(super) async fn begin(
    database: &Database,
    name: &str,
) -> Result<BoxFuture<'static, Result<(), StorageError>>, StorageError> {
    let options = CheckpointOptions { name: Some(name.to_owned()), ..CheckpointOptions::default() };
    let begun = database.slate().begin_checkpoint(CheckpointScope::All, &options).await;
    let (begun, epoch) = (begun.map_err(|error| database.failed(&error))?, database.epoch());
    Ok(Box::pin(async move { begun.wait().await.map(|_| ()).map_err(|error| failed(&error, epoch + 1)) }))
}

pub(super) async fn open(database: &Database, name: &str) -> Result<Arc<dyn Engine>, StorageError> {
    let found = find(database, name).await?.ok_or(StorageError::CheckpointMissing)?;
    let mode = DbReaderMode::Checkpoint(found.id);
    let cache = settings::cache(CACHE_BYTES);
    Ok(Arc::new(Kept::open(database.place().clone(), mode, (cache, 0), database.epoch()).await?))
}

pub(super) async fn names(database: &Database) -> Result<Vec<String>, StorageError> {
    let found = database.admin().list_checkpoints(None).await.map_err(|error| database.failed(&error))?;
    Ok(found.into_iter().filter_map(|checkpoint| checkpoint.name).collect())
}

pub(super) async fn files(
    database: &Database,
    name: &str,
    with_log: files::WithLog,
) -> Result<KeptFiles, StorageError> {
    let found = find(database, name).await?.ok_or(StorageError::CheckpointMissing)?;
    let place = database.place();
    files::of_checkpoint((&place.store, &place.path), database.admin(), found.manifest_id, with_log).await
}

/// Which state of a shard is read.
#[derive(Debug, Clone)]
pub enum Moment {
    /// The checkpoint that its owner keeps under this name.
    Checkpoint(String),
    /// All stored data: of a shard that has no writer.
    Latest,
}

#[derive(Debug, Clone)]
pub struct ReadOptions {
    pub store: Arc<dyn ObjectStore>,
    pub path: String,
    pub moment: Moment,
    /// Shared by all shards that are read, which have different numbers.
    pub cache: SharedCache,
    pub number: u64,
    pub is_scanned: IsScanned,
}

/// A shard to read, of which nothing in the store changes: its commits are refused. In a runtime, which must outlive it.
///
/// # Errors
/// [`StorageError::Missing`] where there is no shard, [`StorageError::CheckpointMissing`].
pub async fn open_to_read(options: ReadOptions) -> Result<Shard, StorageError> {
    let path = Path::from(options.path.as_str());
    let admin = Admin::builder(path.clone(), options.store.clone()).build();
    let missing = StorageError::Missing { directory: options.path.into() };
    let failed = |error: slatedb::Error| failed(&error, 0);
    let mode = match options.moment {
        Moment::Latest => {
            let found = whole_log::read_manifest(&*options.store, &path, &admin).await?;
            let _there = found.ok_or(missing)?;
            DbReaderMode::FollowLatest
        }
        Moment::Checkpoint(name) => {
            let _there = admin.read_manifest(None).await.map_err(failed)?.ok_or(missing)?;
            let found = admin.list_checkpoints(Some(&name)).await.map_err(failed)?;
            let found = found.into_iter().next().ok_or(StorageError::CheckpointMissing)?;
            DbReaderMode::Checkpoint(found.id)
        }
    };
    let (store, is_scanned) = (options.store, options.is_scanned);
    let runtime = tokio::runtime::Handle::current();
    let place = Place { store, path, runtime, is_scanned, circuits: None, drops: Drops::default() };
    let kept = Kept::open(place, mode, (options.cache.0, options.number), 0).await?;
    Shard::with_engine(Arc::new(kept), &ShardOptions::memory())
}

pub(super) async fn remove(database: &Database, name: &str) -> Result<(), StorageError> {
    let found = find(database, name).await?.ok_or(StorageError::CheckpointMissing)?;
    database.admin().delete_checkpoint(found.id).await.map_err(|error| database.failed(&error))
}

async fn find(database: &Database, name: &str) -> Result<Option<Checkpoint>, StorageError> {
    let found =
        database.admin().list_checkpoints(Some(name)).await.map_err(|error| database.failed(&error))?;
    Ok(found.into_iter().next())
}

/// A checkpoint as an engine that takes no writes.
struct Kept {
    reader: Arc<DbReader>,
    runtime: tokio::runtime::Handle,
    epoch: u64,
}

impl Kept {
    async fn open(
        place: Place,
        mode: DbReaderMode,
        (cache, number): (Arc<dyn DbCache>, u64),
        epoch: u64,
    ) -> Result<Kept, StorageError> {
        let Place { store, path, runtime, is_scanned, circuits: _, drops: _ } = place;
        // The rows of the log were in the memtable, which a checkpoint of everything has flushed.
        let skip_wal_replay = matches!(mode, DbReaderMode::Checkpoint(_));
        let reader = DbReader::builder(path, store)
            .with_reader_mode(mode)
            .with_options(DbReaderOptions { skip_wal_replay, ..DbReaderOptions::default() })
            .with_segment_extractor(Arc::new(Uid))
            .with_filter_policies(filters::policies(is_scanned))
            .with_db_cache(cache, number)
            .build()
            .await
            .map_err(|error| failed(&error, epoch + 1))?;
        Ok(Kept { reader: Arc::new(reader), runtime, epoch })
    }
}

fn read_only<'a>() -> Answer<'a, ()> {
    Answer::Now(Err(StorageError::io("a checkpoint takes no writes")))
}

impl Engine for Kept {
    fn apply(&self, _batches: Vec<Batch>) -> Answer<'_, ()> {
        read_only()
    }

    fn sync(&self) -> Answer<'_, ()> {
        read_only()
    }

    fn view(&self) -> Box<dyn EngineView> {
        Box::new(ObjectView::of_checkpoint(self.reader.clone(), self.runtime.clone(), self.epoch))
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::later(async { self.reader.close().await.map_err(|error| failed(&error, self.epoch + 1)) })
    }

    fn disk_bytes(&self) -> u64 {
        self.reader.manifest().all_sst_views().map(|table| table.estimate_size()).sum()
    }

    fn answers_later(&self) -> bool {
        true
    }
}
