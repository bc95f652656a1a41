//! States that are kept by name: checkpoints of the manifest, which keep the tables that they name from being collected.

use std::sync::Arc;

use slatedb::config::{CheckpointOptions, CheckpointScope, DbReaderOptions};
use slatedb::{Checkpoint, DbReader, DbReaderMode};

use super::settings::{self, Uid};
use super::view::ObjectView;
use super::{ObjectEngine, Place, filters};
use crate::{Answer, Batch, Engine, EngineView, StorageError};

/// A checkpoint is read seldom, beside the shard itself.
const CACHE_BYTES: u64 = 16 << 20;

pub(super) async fn make(engine: &ObjectEngine, name: &str) -> Result<(), StorageError> {
    if find(engine, name).await?.is_some() {
        return Err(StorageError::CheckpointExists);
    }
    let options = CheckpointOptions { name: Some(name.to_owned()), ..CheckpointOptions::default() };
    let made = engine.database.create_checkpoint(CheckpointScope::All, &options).await;
    made.map(|_| ()).map_err(|error| engine.failed(&error))
}

pub(super) async fn open(engine: &ObjectEngine, name: &str) -> Result<Arc<dyn Engine>, StorageError> {
    let found = find(engine, name).await?.ok_or(StorageError::CheckpointMissing)?;
    let Place { store, path, runtime, is_scanned } = engine.place.clone();
    let reader = DbReader::builder(path, store)
        .with_reader_mode(DbReaderMode::Checkpoint(found.id))
        // What is in the log was in the memtable, which a checkpoint of everything has flushed.
        .with_options(DbReaderOptions { skip_wal_replay: true, ..DbReaderOptions::default() })
        .with_segment_extractor(Arc::new(Uid))
        .with_filter_policies(filters::policies(is_scanned))
        .with_db_cache(settings::cache(CACHE_BYTES), 0)
        .build()
        .await
        .map_err(|error| engine.failed(&error))?;
    Ok(Arc::new(Kept { reader: Arc::new(reader), runtime, epoch: engine.epoch }))
}

pub(super) async fn remove(engine: &ObjectEngine, name: &str) -> Result<(), StorageError> {
    let found = find(engine, name).await?.ok_or(StorageError::CheckpointMissing)?;
    engine.admin.delete_checkpoint(found.id).await.map_err(|error| engine.failed(&error))
}

async fn find(engine: &ObjectEngine, name: &str) -> Result<Option<Checkpoint>, StorageError> {
    let found = engine.admin.list_checkpoints(Some(name)).await.map_err(|error| engine.failed(&error))?;
    Ok(found.into_iter().next())
}

/// A checkpoint as an engine that takes no writes.
struct Kept {
    reader: Arc<DbReader>,
    runtime: tokio::runtime::Handle,
    epoch: u64,
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
        Answer::later(async {
            self.reader.close().await.map_err(|error| super::failed(&error, self.epoch + 1))
        })
    }

    fn disk_bytes(&self) -> u64 {
        self.reader.manifest().all_sst_views().map(|table| table.estimate_size()).sum()
    }

    fn answers_later(&self) -> bool {
        true
    }
}
