//! The engine on an object store: one SlateDB database for each shard.
//!
//! | file | content |
//! |---|---|
//! | `settings.rs` | how SlateDB is set up, each line with its reason |
//! | `database.rs` | the database of a shard, which is opened again where it ended by itself |
//! | `options.rs`, `open.rs` | options to open a shard; opening its database for an owner |
//! | `owner.rs` | the last owner of a shard |
//! | `own_objects.rs` | recognises objects of the log whose answer was lost |
//! | `filters.rs` | which keys the tables' filters are over |
//! | `view.rs` | reads of a point in time: from a snapshot, or from a checkpoint |
//! | `checkpoints.rs` | states that are kept by name, and reading a shard without owning it |
//! | `clock.rs` | the clock of a database, which never goes back |
//! | `circuit.rs` | refuses requests at once while the store fails |
//! | `disk_cache/` | parts of tables on a local disk, in front of the store |
//! | `drops.rs` | dropping a partition by a change of the manifest |
//! | `objects.rs`, `errors.rs` | paths of objects; errors of SlateDB and of stores |
//! | `files.rs` | the objects of a state, for backups |
//! | `log.rs` | the archived log, for restores to a point in time |
//! | `tail.rs` | the log of a shard that is in use, for a copy that follows it |
//! | `whole_log.rs` | refuses a log with a missing object |
//! | `write_memory.rs` | the memory of rows that are in no table yet |
//!
//! Facts about SlateDB 0.18.0 that this rests on (read in its source):
//! - a write is one atomic batch, in memory at once and durable with the next flush of the write-ahead log; of two writes of
//!   one key in a batch the later one counts;
//! - a snapshot shows all writes from before it was made, durable or not;
//! - opening a database claims the next writer epoch, and the log refuses objects of an earlier
//!   one; with an expected epoch, an open that comes too late is refused and disturbs no owner;
//! - the segment extractor is fixed when a database is created; a segment, here a partition, is a tree of its own;
//! - flushing the memtable flushes the log as well.

mod checkpoints;
mod circuit;
mod clock;
mod compactor;
mod database;
mod disk_cache;
mod drops;
mod errors;
mod files;
mod filters;
mod log;
mod objects;
mod open;
mod options;
mod own_objects;
mod owner;
mod settings;
mod tail;
mod view;
mod whole_log;
mod write_memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use slatedb::admin::Admin;
use slatedb::config::{CloseOptions, FlushType};
use slatedb::object_store::path::Path;
use tokio::runtime::Handle;

use crate::checkpoint::check_name;
use crate::{Answer, Batch, Engine, EngineView, KeptFiles, Lease, StorageError};
pub use checkpoints::{Moment, ReadOptions, open_to_read};
use circuit::Guarded;
pub use circuit::{Circuit, CircuitEvent, Circuits};
use compactor::Drops;
use database::Database;
use disk_cache::Cached;
pub use disk_cache::{DiskCache, DiskCacheEvent};
use errors::RETRY_AFTER;
pub use files::{WithLog, check_log, forget_checkpoints, of_closed as kept_files_of_closed};
pub use filters::IsScanned;
pub(crate) use log::{groups_of, unpack};
pub use options::ObjectOptions;
use options::Place;
use own_objects::OwnObjects;
pub use settings::SharedCache;
pub use slatedb::object_store;
pub use tail::ObjectTail;
use view::ObjectView;
pub use write_memory::WriteMemory;

pub struct ObjectEngine {
    database: Arc<Database>,
    lease: Option<Arc<Lease>>,
    log_kept: Duration,
    /// Backups have the log.
    keeps_log: AtomicBool,
}

impl ObjectEngine {
    /// Opens or creates the database. In a runtime, which must outlive the engine.
    ///
    /// # Errors
    /// [`StorageError::Fenced`] where a later owner has it, [`StorageError::Missing`] where it must exist and does not.
    pub async fn open(options: ObjectOptions) -> Result<ObjectEngine, StorageError> {
        let path = Path::from(options.path.as_str());
        let (circuits, is_scanned) = (options.circuits.clone(), options.is_scanned);
        let store = match &circuits {
            Some(circuits) => Guarded::over(options.store.clone(), circuits.clone(), &path),
            None => options.store.clone(),
        };
        let store = OwnObjects::over(store);
        let store = match &options.disk_cache {
            Some(cache) => Cached::over(store, cache.clone()),
            None => store,
        };
        let place =
            Place { store, path, runtime: Handle::current(), is_scanned, circuits, drops: Drops::default() };
        let admin = Admin::builder(place.path.clone(), place.store.clone()).build();
        let (lease, log_kept) = (options.lease.clone(), options.log_kept);
        let database = Database::open(options, place, admin).await?;
        Ok(ObjectEngine { database, lease, log_kept, keeps_log: AtomicBool::new(false) })
    }

    fn keeps_log(&self) -> bool {
        self.keeps_log.load(Ordering::Acquire)
    }
}

impl Engine for ObjectEngine {
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()> {
        Answer::later(self.database.write(batches))
    }

    fn sync(&self) -> Answer<'_, ()> {
        Answer::later(self.database.sync())
    }

    fn view(&self) -> Box<dyn EngineView> {
        Box::new(ObjectView::of_database(&self.database))
    }

    /// How often the database was opened again: a view from before is of no use any more.
    fn moment(&self) -> u64 {
        self.database.now().times
    }

    fn checkpoint(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Answer::later(async move {
            check_name(&name)?;
            checkpoints::make(&self.database, &name).await
        })
    }

    fn begin_checkpoint(&self, name: &str) -> Answer<'_, BoxFuture<'static, Result<(), StorageError>>> {
        let name = name.to_owned();
        Answer::later(async move { checkpoints::begin(&self.database, &name).await })
    }

    fn checkpoints(&self) -> Answer<'_, Vec<String>> {
        Answer::later(checkpoints::names(&self.database))
    }

    fn kept_files(&self, name: &str) -> Answer<'_, KeptFiles> {
        let name = name.to_owned();
        Answer::later(async move {
            let with_log = if self.keeps_log() { WithLog::Yes(self.log_kept) } else { WithLog::No };
            checkpoints::files(&self.database, &name, with_log).await
        })
    }

    fn open_checkpoint(&self, name: &str) -> Answer<'_, Arc<dyn Engine>> {
        let name = name.to_owned();
        Answer::later(async move { checkpoints::open(&self.database, &name).await })
    }

    fn remove_checkpoint(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Answer::later(async move { checkpoints::remove(&self.database, &name).await })
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::later(self.database.flush(FlushType::MemTable))
    }

    fn drop_prefix(&self, prefix: &[u8]) -> Answer<'_, bool> {
        if prefix.len() != settings::UID_BYTES || self.keeps_log() {
            return Answer::Now(Ok(false));
        }
        let segment = Bytes::copy_from_slice(prefix);
        Answer::later(async move { drops::drop_segment(&self.database, segment).await.map(|()| true) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::later(async {
            let options = CloseOptions::default().with_flush_type(Some(FlushType::MemTable));
            let closed = self.database.slate().close_with_options(options).await;
            closed.map_err(|error| self.database.failed(&error))
        })
    }

    fn disk_bytes(&self) -> u64 {
        self.database.slate().manifest().all_sst_views().map(|table| table.estimate_size()).sum()
    }

    /// The collector of the database leaves the log for the time that was set when it was opened.
    fn keep_log(&self, window: Option<Duration>) -> Answer<'_, ()> {
        if window.is_some_and(|window| window > self.log_kept) {
            return Answer::Now(Err(StorageError::io(
                "the shard was opened to keep its log for a shorter time",
            )));
        }
        self.keeps_log.store(window.is_some(), Ordering::Release);
        Answer::Now(Ok(()))
    }

    fn is_leased(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_held())
    }

    fn check_store(&self) -> Result<(), StorageError> {
        let Some(circuits) = &self.database.place().circuits else { return Ok(()) };
        if circuits.log.refuses() || (circuits.data.refuses() && self.database.waits_for_room()) {
            return Err(StorageError::Unavailable { retry_after: RETRY_AFTER });
        }
        Ok(())
    }

    fn answers_later(&self) -> bool {
        true
    }
}
