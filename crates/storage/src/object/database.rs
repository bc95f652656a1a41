//! Database of a shard, reopened in the process after it ended by itself.
//!
//! SlateDB ends a database when one of its tasks meets an unexpected state: a manifest that does
//! not parse, a merge that panics. No request to this database is answered any more, though the
//! store may be in order. So this owner opens it again, under the same epoch, and repeats the
//! writes that were not stored:
//!
//! ```text
//! groups   1 2 3 │ 4 5        1–3 are synced; 4 and 5 are in memory and perhaps in the log
//!                │ ✗ the database ends
//! opened again:  1 2 3 (4)    as the log has it
//! repeated:      4 5          then the writers are notified as if nothing had happened
//! ```
//! A group sets keys to values and removes keys, so that repeating one that is stored already changes nothing, in the order in which the
//! groups came. The records of owners and the epoch of the log refuse all this where another owner has the shard. Views of the
//! database that ended answer [`StorageError::Unavailable`]; later ones are of the new one.
//!
//! An owner reopens it up to ten times in ten minutes. More failures are a lasting fault, which is
//! reported by name.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use slatedb::admin::Admin;
use slatedb::config::{CloseOptions, FlushOptions, FlushType, WriteOptions};
use slatedb::{CloseReason, Db, WriteBatch};
use tokio::time::{Instant, sleep};

use super::errors::failed;
use super::open::open_database_for;
use super::options::{ObjectOptions, Place};
use super::settings::LOG_OBJECTS_MAX;
use super::write_memory::{Copies, Held, SHARE_OF_A_MEMTABLE, memory_of};
use crate::{Batch, Op, StorageError};

const OPENS_MAX: usize = 10;
/// After an attempt that failed.
const OPEN_AFTER: Duration = Duration::from_secs(1);
const OPENS_WITHIN: Duration = Duration::from_mins(10);
/// A group that takes longer to get into memory finds none.
const WAITS_AFTER: Duration = Duration::from_secs(1);

pub(super) struct Database {
    options: ObjectOptions,
    place: Place,
    admin: Admin,
    epoch: u64,
    open: ArcSwap<Open>,
    unsynced: Mutex<Unsynced>,
    unflushed: Mutex<Unflushed>,
    /// Since when a group is put into memory.
    writing: Mutex<Option<Instant>>,
    /// When it was opened again. Held while it is.
    again: tokio::sync::Mutex<VecDeque<Instant>>,
}

/// The database as it was opened for the first time, or again.
pub(super) struct Open {
    pub database: Arc<Db>,
    /// 0 for the first time.
    pub times: u64,
}

/// Groups that may not be in the store yet, in their order.
#[derive(Default)]
struct Unsynced {
    groups: VecDeque<(u64, Arc<Vec<Batch>>)>,
    /// The last group that was passed in.
    last: u64,
    /// The last group that the open database has.
    written: u64,
}

/// Rows written since the last flush of the memtable began.
struct Unflushed {
    memory: Held,
    log_objects: u64,
}

impl Database {
    pub async fn open(options: ObjectOptions, place: Place, admin: Admin) -> Result<Arc<Self>, StorageError> {
        let (database, epoch) = open_database_for(&options, &place, &admin).await?;
        let open = Open { database: Arc::new(database), times: 0 };
        // The size of the log is unknown: the first write makes tables of it. Before that the first
        // reads are served, and a server that only reads writes nothing.
        let unflushed = Unflushed { memory: options.write_memory.nothing(), log_objects: LOG_OBJECTS_MAX };
        let database = Arc::new(Database {
            options: ObjectOptions { must_exist: true, ..options },
            place,
            admin,
            epoch,
            open: ArcSwap::from_pointee(open),
            unsynced: Mutex::default(),
            unflushed: Mutex::new(unflushed),
            writing: Mutex::default(),
            again: tokio::sync::Mutex::default(),
        });
        database.watch();
        Ok(database)
    }

    pub fn now(&self) -> Arc<Open> {
        self.open.load_full()
    }

    /// The database as it is open now.
    pub fn slate(&self) -> Arc<Db> {
        self.now().database.clone()
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Called for one group after the other.
    pub async fn write(self: &Arc<Self>, batches: Vec<Batch>) -> Result<(), StorageError> {
        if batches.iter().all(Batch::is_empty) {
            return Ok(());
        }
        let group = Arc::new(batches);
        let number = self.unsynced().push(group.clone());
        *self.writing() = Some(Instant::now());
        let written = self.write_group(&group, number).await;
        *self.writing() = None;
        written
    }

    async fn write_group(self: &Arc<Self>, group: &[Batch], number: u64) -> Result<(), StorageError> {
        let memory = self.options.write_memory.take(memory_of(group)).await;
        loop {
            let open = self.now();
            match write(&open.database, group).await {
                Ok(()) => {
                    debug_assert!(number > self.unsynced().written, "groups are written in their order");
                    self.unsynced().written = number;
                    self.note_written(memory);
                    return Ok(());
                }
                Err(error) => self.open_again(&open, self.failed(&error)).await.map_err(for_good)?,
            }
        }
    }

    fn note_written(self: &Arc<Self>, memory: Held) {
        let is_due = {
            let mut unflushed = self.unflushed();
            unflushed.memory.add(memory);
            unflushed.memory.bytes() >= SHARE_OF_A_MEMTABLE * self.options.memtable_bytes
        };
        if is_due {
            self.begin_flush();
        }
    }

    /// Everything that was written before is in the log.
    pub async fn sync(self: &Arc<Self>) -> Result<(), StorageError> {
        self.flush(FlushType::Wal).await?;
        let is_due = {
            let mut unflushed = self.unflushed();
            unflushed.log_objects += 1;
            unflushed.log_objects >= LOG_OBJECTS_MAX
        };
        if is_due {
            self.begin_flush();
        }
        Ok(())
    }

    /// Flushes the memtable to tables in the background.
    fn begin_flush(self: &Arc<Self>) {
        let nothing = Unflushed { memory: self.options.write_memory.nothing(), log_objects: 0 };
        let flushing = std::mem::replace(&mut *self.unflushed(), nothing).memory.begin_flush();
        let database = self.clone();
        self.place.runtime.spawn(async move {
            if let Err(error) = database.flush(FlushType::MemTable).await {
                // The next writer gets the error.
                tracing::debug!(shard = %database.place.path, %error, "a memtable was not flushed");
            }
            drop(flushing);
        });
    }

    /// Everything that was written before is in the store: in the log, and in tables if that is asked for.
    pub async fn flush(&self, flush_type: FlushType) -> Result<(), StorageError> {
        loop {
            let (open, written) = (self.now(), self.unsynced().written);
            let options = FlushOptions { flush_type: flush_type.clone() };
            match open.database.flush_with_options(options).await {
                Ok(()) => {
                    self.unsynced().forget(written);
                    return Ok(());
                }
                Err(error) => self.open_again(&open, self.failed(&error)).await.map_err(for_good)?,
            }
        }
    }

    /// Converts an error of this database.
    pub fn failed(&self, error: &slatedb::Error) -> StorageError {
        self.named(failed(error, self.epoch + 1))
    }

    fn named(&self, error: StorageError) -> StorageError {
        match error {
            StorageError::Corrupt { what } => {
                StorageError::Corrupt { what: format!("the shard '{}': {what}", self.place.path).into() }
            }
            other => other,
        }
    }

    /// `Err` where that is of no use, or not allowed.
    async fn open_again(&self, ended: &Open, reason: StorageError) -> Result<(), StorageError> {
        let mut again = self.again.lock().await;
        if self.now().times != ended.times {
            return Ok(());
        }
        if !has_ended(&ended.database) || matches!(reason, StorageError::Fenced { .. }) {
            return Err(reason);
        }
        let database = self.open_within_bounds(&mut again, reason).await?;
        let open = Open { database: Arc::new(database), times: ended.times + 1 };
        self.open.store(Arc::new(open));
        let old = ended.database.clone();
        tokio::spawn(async move {
            // It has ended; this releases its resources.
            let _ = old.close_with_options(CloseOptions::default().with_flush_type(None)).await;
        });
        Ok(())
    }

    /// The cause of the end may last for a while: opening is repeated up to the limit.
    async fn open_within_bounds(
        &self,
        again: &mut VecDeque<Instant>,
        mut reason: StorageError,
    ) -> Result<Db, StorageError> {
        loop {
            let now = Instant::now();
            while again.front().is_some_and(|opened| now - *opened > OPENS_WITHIN) {
                again.pop_front();
            }
            if again.len() >= OPENS_MAX {
                return Err(reason);
            }
            again.push_back(now);
            assert!(again.len() <= OPENS_MAX, "an engine that ends is opened a bounded number of times");
            tracing::warn!(shard = %self.place.path, %reason, "the engine of a shard ended by itself: it is opened again");
            match self.open_and_repeat().await {
                Ok(database) => return Ok(database),
                Err(fenced @ StorageError::Fenced { .. }) => return Err(fenced),
                Err(error) => reason = error,
            }
            sleep(OPEN_AFTER).await;
        }
    }

    async fn open_and_repeat(&self) -> Result<Db, StorageError> {
        let opened = open_database_for(&self.options, &self.place, &self.admin).await;
        let (database, _) = opened.map_err(|error| self.named(error))?;
        let groups: Vec<_> = self.unsynced().groups.iter().cloned().collect();
        for (_, group) in &groups {
            write(&database, group).await.map_err(|error| self.failed(&error))?;
        }
        tracing::info!(shard = %self.place.path, repeated = groups.len(), "the engine of a shard is open again");
        Ok(database)
    }

    /// Opens it again when it ends while no write is under way.
    fn watch(self: &Arc<Self>) {
        let (mut status, watched) = (self.now().database.subscribe(), Arc::downgrade(self));
        tokio::spawn(async move {
            loop {
                let ended = status.wait_for(|status| status.close_reason.is_some()).await;
                let Ok(CloseReason::Panic) =
                    ended.map(|status| status.close_reason.unwrap_or(CloseReason::Clean))
                else {
                    return;
                };
                let Some(database) = watched.upgrade() else { return };
                let open = database.now();
                // A writer may have been faster. The next writer gets an error that cannot be
                // repaired.
                if has_ended(&open.database)
                    && database.open_again(&open, database.reason(&open).await).await.is_err()
                {
                    return;
                }
                status = database.now().database.subscribe();
            }
        });
    }

    /// The reason why it ended, as every request to it returns it.
    async fn reason(&self, ended: &Open) -> StorageError {
        let options = FlushOptions { flush_type: FlushType::Wal };
        match ended.database.flush_with_options(options).await {
            Err(error) => self.failed(&error),
            Ok(()) => StorageError::io("it ended without a reason"),
        }
    }

    /// Whether writers wait because memory is full of rows that are in no table yet. Otherwise
    /// memory takes a group at once.
    pub fn waits_for_room(&self) -> bool {
        self.writing().is_some_and(|since| since.elapsed() >= WAITS_AFTER)
    }

    fn writing(&self) -> MutexGuard<'_, Option<Instant>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unflushed(&self) -> MutexGuard<'_, Unflushed> {
        self.unflushed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unsynced {
    fn push(&mut self, group: Arc<Vec<Batch>>) -> u64 {
        self.last += 1;
        self.groups.push_back((self.last, group));
        self.last
    }

    fn forget(&mut self, written: u64) {
        debug_assert!(written <= self.last, "only groups that were begun are synced");
        while self.groups.front().is_some_and(|(number, _)| *number <= written) {
            self.groups.pop_front();
        }
    }
}

/// Whether it ended by itself: not closed, and not another owner's.
pub(super) fn has_ended(database: &Db) -> bool {
    database.status().close_reason == Some(CloseReason::Panic)
}

/// Converts an error that cannot be repaired here, for writers.
fn for_good(error: StorageError) -> StorageError {
    match error {
        StorageError::Fenced { .. } | StorageError::Closed | StorageError::Ended { .. } => error,
        error => StorageError::Ended { reason: error.to_string().into() },
    }
}

async fn write(database: &Db, group: &[Batch]) -> Result<(), slatedb::Error> {
    let (mut rows, mut copies) = (WriteBatch::new(), Copies::of(group));
    for op in group.iter().flat_map(Batch::iter) {
        match op {
            Op::Put { key, value } => rows.put_bytes(copies.copy(key), copies.copy(value)),
            Op::Delete { key } => rows.delete(key),
        }
    }
    database.write_with_options(rows, &WriteOptions::default()).await.map(|_| ())
}
