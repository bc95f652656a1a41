//! The engine on an object store: one SlateDB database for each shard.
//!
//! | file | content |
//! |---|---|
//! | `settings.rs` | how SlateDB is set up, each line with its reason |
//! | `database.rs` | the database of a shard, which is opened again where it ended by itself |
//! | `owner.rs` | the last owner of a shard |
//! | `own_objects.rs` | recognises objects of the log whose answer was lost |
//! | `filters.rs` | which keys the tables' filters are over |
//! | `view.rs` | reads of a point in time: from a snapshot, or from a checkpoint |
//! | `checkpoints.rs` | states that are kept by name, and reading a shard without owning it |
//! | `clock.rs` | the clock of a database, which never goes back |
//! | `circuit.rs` | refuses requests at once while the store fails |
//! | `disk_cache/` | parts of tables on a local disk, in front of the store |
//! | `drops.rs` | dropping a partition by a change of the manifest |
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
mod database;
mod disk_cache;
mod drops;
mod files;
mod filters;
mod log;
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
use shardlake_stdx::Clock;
use slatedb::admin::Admin;
use slatedb::config::{CloseOptions, FlushType};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{CloseReason, Db, ErrorKind, GarbageCollectorBuilder, WalReader};
use tokio::runtime::Handle;

use crate::checkpoint::check_name;
use crate::{Answer, Batch, Engine, EngineView, KeptFiles, Lease, StorageError};
pub use checkpoints::{Moment, ReadOptions, open_to_read};
use circuit::Guarded;
pub use circuit::{Circuit, CircuitEvent, Circuits};
use clock::{Collects, SteadyClock};
use database::Database;
use disk_cache::Cached;
pub use disk_cache::{DiskCache, DiskCacheEvent};
pub use files::{WithLog, check_log, forget_checkpoints, of_closed as kept_files_of_closed};
pub use filters::IsScanned;
pub(crate) use log::{groups_of, unpack};
use own_objects::OwnObjects;
pub use settings::SharedCache;
use settings::Uid;
pub use slatedb::object_store;
pub use tail::ObjectTail;
use view::ObjectView;
pub use write_memory::WriteMemory;

/// A store that does not answer is asked again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// An open whose claim was stored though the answer was lost takes the claim for another owner's.
const OPENS_MAX: u32 = 5;

#[derive(Debug, Clone)]
pub struct ObjectOptions {
    pub store: Arc<dyn ObjectStore>,
    /// Path of the shard in the store.
    pub path: String,
    /// Where it is known to have been made.
    pub must_exist: bool,
    /// Epoch of this owner: see [`crate::ShardOptions::epoch`].
    pub epoch: Option<u64>,
    /// Without one, the process owns the shard for as long as the store takes its writes.
    pub lease: Option<Arc<Lease>>,
    /// Without any, requests wait for a store that fails.
    pub circuits: Option<Circuits>,
    /// Shared by all shards of the process.
    pub disk_cache: Option<Arc<DiskCache>>,
    /// Shared by all shards of the process, which have different numbers.
    pub cache: SharedCache,
    pub number: u64,
    /// A quarter of the memory for rows of this shard that are in no table yet, if all shards are
    /// written to alike.
    pub memtable_bytes: u64,
    /// Shared by all shards of the process.
    pub write_memory: WriteMemory,
    /// Number of shards of the process: they share the memory that merges read ahead into, and the
    /// rate at which stores are asked for orders.
    pub shards: u16,
    /// For how long the log stays; at least a day.
    pub log_kept: Duration,
    /// Clock of the machine. The database has its own, which follows it and never goes back.
    pub clock: Clock,
    /// Keys that no filter needs to know.
    pub is_scanned: IsScanned,
}

pub struct ObjectEngine {
    database: Arc<Database>,
    lease: Option<Arc<Lease>>,
    log_kept: Duration,
    /// Backups have the log.
    keeps_log: AtomicBool,
}

/// Where a shard lies, and the runtime on which the store's sockets and timers live.
#[derive(Clone)]
struct Place {
    store: Arc<dyn ObjectStore>,
    path: Path,
    runtime: Handle,
    is_scanned: IsScanned,
    circuits: Option<Circuits>,
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
        let place = Place { store, path, runtime: Handle::current(), is_scanned, circuits };
        let admin = Admin::builder(place.path.clone(), place.store.clone()).build();
        let (lease, log_kept) = (options.lease.clone(), options.log_kept);
        let database = Database::open(options, place, admin).await?;
        Ok(ObjectEngine { database, lease, log_kept, keeps_log: AtomicBool::new(false) })
    }

    fn keeps_log(&self) -> bool {
        self.keeps_log.load(Ordering::Acquire)
    }

    /// The database as it is open now.
    fn slate(&self) -> Arc<Db> {
        self.database.now().database.clone()
    }

    fn admin(&self) -> &Admin {
        self.database.admin()
    }

    fn failed(&self, error: &slatedb::Error) -> StorageError {
        self.database.failed(error)
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
            checkpoints::make(self, &name).await
        })
    }

    fn begin_checkpoint(&self, name: &str) -> Answer<'_, BoxFuture<'static, Result<(), StorageError>>> {
        let name = name.to_owned();
        Answer::later(async move { checkpoints::begin(self, &name).await })
    }

    fn checkpoints(&self) -> Answer<'_, Vec<String>> {
        Answer::later(checkpoints::names(self))
    }

    fn kept_files(&self, name: &str) -> Answer<'_, KeptFiles> {
        let name = name.to_owned();
        Answer::later(async move { checkpoints::files(self, &name).await })
    }

    fn open_checkpoint(&self, name: &str) -> Answer<'_, Arc<dyn Engine>> {
        let name = name.to_owned();
        Answer::later(async move { checkpoints::open(self, &name).await })
    }

    fn remove_checkpoint(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Answer::later(async move { checkpoints::remove(self, &name).await })
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::later(self.database.flush(FlushType::MemTable))
    }

    fn drop_prefix(&self, prefix: &[u8]) -> Answer<'_, bool> {
        if prefix.len() != settings::UID_BYTES || self.keeps_log() {
            return Answer::Now(Ok(false));
        }
        let segment = Bytes::copy_from_slice(prefix);
        Answer::later(async move { drops::drop_segment(self, segment).await.map(|()| true) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::later(async {
            let options = CloseOptions::default().with_flush_type(Some(FlushType::MemTable));
            let closed = self.slate().close_with_options(options).await;
            closed.map_err(|error| self.failed(&error))
        })
    }

    fn disk_bytes(&self) -> u64 {
        self.slate().manifest().all_sst_views().map(|table| table.estimate_size()).sum()
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

/// Opens the database for the owner that `options` name.
async fn open_database_for(
    options: &ObjectOptions,
    place: &Place,
    admin: &Admin,
) -> Result<(Db, u64), StorageError> {
    let mut opens = 1;
    loop {
        match open_database(options, place, admin).await {
            // A later owner has left a record, and then the claim is refused.
            Err((StorageError::Fenced { .. }, Claim::Made)) if opens < OPENS_MAX => opens += 1,
            opened => return opened.map_err(|(error, _)| error),
        }
    }
}

/// How far an open came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Missing,
    /// As the last owner, under an epoch that no other process has.
    Made,
}

async fn open_database(
    options: &ObjectOptions,
    place: &Place,
    admin: &Admin,
) -> Result<(Db, u64), (StorageError, Claim)> {
    let missing = |error: StorageError| (error, Claim::Missing);
    let known = whole_log::read(&*place.store, &place.path, admin).await.map_err(missing)?;
    if known.is_none() && options.must_exist {
        return Err(missing(StorageError::Missing { directory: options.path.as_str().into() }));
    }
    // Read before the claim: an owner that opens in between has a later epoch of the database, and
    // this open is refused.
    let writer_epoch = known.as_ref().map_or(0, |(manifest, _)| manifest.writer_epoch());
    let epoch = owner::claim(&*place.store, &place.path, options.epoch).await.map_err(missing)?;
    let newest = match &known {
        Some((manifest, log)) => {
            let reader = WalReader::new(place.path.clone(), place.store.clone());
            let newest = clock::newest_time(&reader, admin, manifest, log).await;
            newest.map_err(|error| missing(failed(&error, 0)))?
        }
        None => Duration::ZERO,
    };
    let clock = clock_from(newest, options);
    let collector = GarbageCollectorBuilder::new(place.path.clone(), place.store.clone())
        .with_options(settings::collector(options.log_kept))
        .with_gc_filter(Arc::new(Collects(clock.clone())));
    let builder = Db::builder(place.path.clone(), place.store.clone())
        .with_settings(settings::of(options.memtable_bytes, options.shards))
        .with_system_clock(clock)
        .with_gc_builder(collector)
        .with_sst_block_size(settings::BLOCK_SIZE)
        .with_segment_extractor(Arc::new(Uid))
        .with_filter_policies(filters::policies(place.is_scanned))
        .with_expected_epoch(writer_epoch)
        .with_db_cache(options.cache.0.clone(), options.number);
    let claim = if options.epoch.is_some() { Claim::Made } else { Claim::Missing };
    let database = builder.build().await.map_err(|error| (failed(&error, epoch + 1), claim))?;
    Ok((database, epoch))
}

fn clock_from(newest: Duration, options: &ObjectOptions) -> Arc<SteadyClock> {
    let clock = Arc::new(SteadyClock::new(options.clock.clone(), newest));
    if let Some(lead) = clock.lead() {
        tracing::warn!(
            shard = options.path,
            seconds = lead.as_secs(),
            "the machine's clock is behind the newest write of a shard: nothing is removed from the store meanwhile"
        );
    }
    clock
}

/// Converts an error of SlateDB. `epoch` is the least epoch of an owner that fenced this one.
fn failed(error: &slatedb::Error, epoch: u64) -> StorageError {
    match error.kind() {
        ErrorKind::Closed(CloseReason::Fenced) => StorageError::Fenced { epoch },
        ErrorKind::Closed(CloseReason::Clean) => StorageError::Closed,
        ErrorKind::Unavailable => StorageError::Unavailable { retry_after: RETRY_AFTER },
        ErrorKind::Data => StorageError::Corrupt { what: error.to_string().into() },
        _ => StorageError::io(error),
    }
}
