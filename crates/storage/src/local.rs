//! The engine on a local disk: one fjall database, one keyspace, our own grouping of writes.
//!
//! Facts about fjall 3.1.13 that this file rests on (read in its source):
//! - a batch gives all its writes one sequence number, so two writes of one key in a batch would be ambiguous: they are
//!   reduced to the last one here;
//! - a batch is one checksummed journal entry; recovery drops a torn one whole (`journal.rs`
//!   describes other cases);
//! - `persist` holds the journal's lock for the length of the sync, so a second writer would only wait;
//! - a write waits without end, and never looks whether a worker has died, when four memtables wait to be sorted or
//!   thirty tables lie on the first level: [`LocalEngine::make_room`] stays below both and does look;
//! - past the size of a memtable every write sends the workers a message; a lone worker that then sends itself one into
//!   the full queue waits for itself for ever (seen), and meanwhile the memtable grows without bound: so the engine seals
//!   memtables itself, well below that size;
//! - of several workers, the first hands every merge back to the queue, and so spins while another one merges: there is
//!   one worker;
//! - a sorted memtable is given up when the next one is sorted, and may be left to a reader: `memtable_reclaim.rs` frees it;
//! - nothing is sorted on drop: without [`Engine::close`] the next start replays the journal;
//! - compressed journal entries are compressed again at recovery to check them, which a later version of the compressor
//!   could fail: the journal stays uncompressed.
//! - ingestion writes sorted tables directly; its end holds the journal's lock only to seal the memtable and to take a number
//!   (our change, `vendor/README.md`); the tables are synced as they grow (`incremental_sync.rs`), so that no sync of the journal has
//!   to wait for many megabytes.
//! - it keeps at most the configured number of tables open. Further open files: one for each run
//!   that it merges (the tables of the first level and one of the next at most), one that it
//!   writes, one journal, the lock, and the tables that each active reader has just opened.
//!
//! `clear`, keyspace deletion and separated values are not used.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fjall::{AbstractTree, Database, Keyspace, OwnedWriteBatch, PersistMode};
use shardlake_stdx::{Activity, free_disk_bytes, lower_thread_priority};

use crate::directory::Directory;
use crate::disk_space::allocated_bytes;
use crate::files;
use crate::incremental_sync::IncrementalSync;
use crate::inspection::Inspection;
use crate::journal::{self, Records};
use crate::journal_mark::{Mark, Tolerance};
use crate::journal_preallocation::JournalPreallocation;
use crate::local_database::{Purpose, open_database};
use crate::local_view::{LocalView, elsewhere, one_key};
use crate::memtable_reclaim::MemtableReclaim;
use crate::shard_metrics::{CacheState, CompactionState, EngineState};
use crate::slow_reads::{SlowReads, Way};
use crate::synced::{Synced, SyncedRecord};
use crate::table_drop::drop_within;
use crate::wal_archive::{self, KeptJournals};
use crate::{
    Answer, Batch, Engine, EngineView, KeptFiles, LogPosition, Lookup, Op, Row, StorageError, Value,
    checkpoint, epoch,
};

/// Memtables that wait for a worker before writers are slowed down; fjall itself stops at 4.
const SEALED_MEMTABLES_MAX: usize = 2;
/// Bytes of a row in a memtable beyond its key and value.
const ROW_OVERHEAD_BYTES: u64 = 64;
const MEMTABLE_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Tables on the first level before writers are slowed down; fjall itself stops at 30.
const FIRST_LEVEL_TABLES_MAX: usize = 18;
/// Tables on the first level before a load waits: it leaves room for the writers.
const FIRST_LEVEL_TABLES_LOAD_MAX: usize = 8;
/// Bytes that a load writes between two syncs: a sync of the journal may have to wait for one.
const LOAD_SYNC_BYTES: usize = 512 * 1024;
pub(crate) struct LocalOptions {
    pub directory: PathBuf,
    pub must_exist: bool,
    pub epoch: Option<u64>,
    pub cache_bytes: u64,
    pub memtable_bytes: u64,
    pub tables_open_max: usize,
    pub slow_read: Duration,
    /// Whether every write reaches the operating system at once, for when it is acknowledged before a sync.
    pub writes_through: bool,
}

pub(crate) struct LocalEngine {
    // Declared first, dropped first: the directory stays locked until the database is closed.
    rows: Keyspace,
    database: Database,
    pace: Arc<SlowReads>,
    write_mode: Option<PersistMode>,
    memtable_reclaim: MemtableReclaim,
    /// In the memtable that takes the writes, by our own count.
    memtable_bytes: AtomicU64,
    memtable_bytes_max: u64,
    /// `None` where syncs are rare.
    room: Option<JournalPreallocation>,
    /// Loads at work: the end of one holds up writes, which then must not be waited for on a thread of the runtime.
    loads: AtomicUsize,
    /// Where the log is kept.
    kept_log: OnceLock<KeptJournals>,
    /// The content of the journals when they were opened.
    opened: Mark,
    synced: SyncedRecord,
    directory: Directory,
}

impl LocalEngine {
    pub fn open(options: &LocalOptions) -> Result<LocalEngine, StorageError> {
        let at = |work: &str| Activity::begin(format!("{work} of '{}'", options.directory.display()));
        let _opens = at("opens the shard");
        let mut directory = Directory::claim(&options.directory, options.must_exist)?;
        epoch::claim(directory.path(), options.epoch)?;
        checkpoint::sweep(directory.path());
        let tolerance = if options.writes_through { Tolerance::AnyTail } else { Tolerance::LastBatch };
        let opened = if directory.is_new() {
            Mark::new(false, tolerance, Vec::new())
        } else {
            prepare(&directory, tolerance)?
        };
        let purpose = if directory.is_new() { Purpose::Create } else { Purpose::Serve };
        let replays = at("replays the journals");
        let (database, rows) =
            open_database(&directory.database(), (options.cache_bytes, options.tables_open_max), purpose)?;
        drop(replays);
        if directory.is_new() {
            opened.replace(directory.path())?;
        }
        directory.created()?;
        Ok(LocalEngine {
            memtable_reclaim: MemtableReclaim::new()?,
            write_mode: options.writes_through.then_some(PersistMode::Buffer),
            // The rows of the journal are in the memtable now.
            memtable_bytes: AtomicU64::new(database.write_buffer_size()),
            memtable_bytes_max: options.memtable_bytes.min(MEMTABLE_BYTES_MAX),
            room: (!options.writes_through).then(|| JournalPreallocation::new(directory.database())),
            loads: AtomicUsize::new(0),
            kept_log: OnceLock::new(),
            pace: Arc::new(SlowReads::new(options.slow_read)),
            opened,
            synced: SyncedRecord::open(directory.path()),
            directory,
            rows,
            database,
        })
    }

    fn write(&self, batches: Vec<Batch>) -> Result<(), StorageError> {
        self.make_room()?;
        let ops = last_of_each_key(batches);
        let size_bytes: u64 = ops.iter().map(|op| op.size_bytes() as u64 + ROW_OVERHEAD_BYTES).sum();
        if let Some(room) = &self.room {
            room.make_for(size_bytes);
        }
        // Grown step by step, the list would take fresh memory for every group.
        let batch = OwnedWriteBatch::with_capacity(self.database.clone(), ops.len());
        let mut batch = batch.durability(self.write_mode);
        for op in ops {
            match op {
                Op::Put { key, value } => batch.insert(&self.rows, key, value),
                Op::Delete { key } => batch.remove(&self.rows, key),
            }
        }
        batch.commit()?;
        if let Some(kept) = self.kept_log.get() {
            kept.note(size_bytes);
        }
        let memtable_bytes = self.memtable_bytes.fetch_add(size_bytes, Ordering::Relaxed) + size_bytes;
        if memtable_bytes > self.memtable_bytes_max {
            self.seal_memtable()?;
        }
        Ok(())
    }

    /// Syncs the journal, and records how far it is on stable storage.
    fn sync_journal(&self) -> Result<(), StorageError> {
        let place = self.database.persist_to(PersistMode::SyncData)?;
        self.synced.record(Synced { journal: place.number, bytes: place.bytes });
        Ok(())
    }

    /// Hands the memtable to the worker.
    fn seal_memtable(&self) -> Result<(), StorageError> {
        self.memtable_bytes.store(0, Ordering::Relaxed);
        let memtable = self.rows.tree.active_memtable();
        if self.rows.rotate_memtable()? {
            self.memtable_reclaim.add(memtable);
        }
        Ok(())
    }

    /// Whether writers are ahead of the workers.
    fn has_no_room(&self) -> bool {
        self.rows.sealed_memtable_count() > SEALED_MEMTABLES_MAX
            || self.rows.l0_table_count() > FIRST_LEVEL_TABLES_MAX
    }

    /// Waits until the workers have caught up with the writers.
    fn make_room(&self) -> Result<(), StorageError> {
        if !self.has_no_room() {
            return Ok(());
        }
        let _waits = Activity::begin("waits until memtables are sorted and tables are merged");
        while self.has_no_room() {
            self.check_workers()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn load_rows(&self, rows: &mut (dyn Iterator<Item = Row> + Send)) -> Result<(), StorageError> {
        while self.rows.l0_table_count() > FIRST_LEVEL_TABLES_LOAD_MAX {
            self.check_workers()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        let tables = IncrementalSync::of(&self.rows)?;
        let mut ingestion = self.rows.start_ingestion()?;
        tables.synced_while(|grown| {
            at_low_priority(|| {
                let mut unsynced_bytes = 0;
                for (key, value) in rows {
                    unsynced_bytes += key.len() + value.len();
                    ingestion.write(key, value)?;
                    if unsynced_bytes > LOAD_SYNC_BYTES {
                        grown();
                        unsynced_bytes = 0;
                    }
                }
                Ok(())
            })
        })?;
        // Its end seals the memtable, and a writer that seals the next one should not have to free it.
        let memtable = self.rows.tree.active_memtable();
        self.memtable_bytes.store(0, Ordering::Relaxed);
        ingestion.finish()?;
        self.memtable_reclaim.add(memtable);
        Ok(())
    }

    /// Returns an error when a worker has failed: its remaining work will never be done.
    fn check_workers(&self) -> Result<(), StorageError> {
        self.database.persist(PersistMode::Buffer).map_err(StorageError::from)
    }

    /// Notes that nothing follows. The next start does without the note, so that failing to write it is no failure.
    fn mark_closed(&self) {
        let noted =
            journal::inspect(&self.directory.database(), &self.opened.journals).and_then(|journals| {
                Mark::new(true, self.opened.tolerance, journal::known(&journals))
                    .replace(self.directory.path())
            });
        if let Err(error) = noted {
            tracing::warn!(%error, "the shard is closed, but cannot note it");
        }
    }

    fn log_position_from(&self, from: &LogPosition) -> Result<LogPosition, StorageError> {
        self.database.persist(PersistMode::Buffer)?;
        // At first from where the journals ended when they were opened.
        let known = if from.0.is_empty() { &self.opened.journals } else { &from.0 };
        Ok(LogPosition(journal::known(&journal::measure(&self.directory.database(), known)?)))
    }

    fn sort_memtables(&self) -> Result<(), StorageError> {
        self.database.persist(PersistMode::SyncAll)?;
        self.seal_memtable()?;
        let _waits = Activity::begin("waits until a memtable is sorted");
        while self.rows.sealed_memtable_count() > 0 {
            self.check_workers()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Looks at everything before fjall may change anything, and takes a torn write off the newest journal.
fn prepare(directory: &Directory, tolerance: Tolerance) -> Result<Mark, StorageError> {
    let database = directory.database();
    let at = |work: &str| Activity::begin(format!("{work} of '{}'", directory.path().display()));
    let looks = at("checks the files");
    files::check(&database)?;
    drop(looks);
    let records = Records::read(directory.path())?;
    let reads = at("reads the journals");
    let journals = journal::inspect(&database, &[])?;
    drop(reads);
    let judges = at("judges the ends of the journals");
    if let Some((path, torn)) = journal::judge(&journals, &records, tolerance)? {
        torn.cut_off(path)?;
    }
    drop(judges);
    let _syncs = at("syncs the journals");
    journal::sync(&journals)?;
    files::restore_lock(&database)?;
    let opened = Mark::new(false, tolerance, journal::known(&journals));
    opened.replace(directory.path())?;
    Ok(opened)
}

/// Runs work on a thread that leaves the processors to threads that serve clients. It holds no
/// resource that they wait for.
fn at_low_priority(work: impl FnOnce() -> Result<(), StorageError> + Send) -> Result<(), StorageError> {
    let panicked = |_| Err(StorageError::io("a thread panicked that loads rows"));
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            lower_thread_priority();
            work()
        });
        working.join().unwrap_or_else(panicked)
    })
}

/// In order of the keys.
fn last_of_each_key(batches: Vec<Batch>) -> Vec<Op> {
    let mut ops: Vec<Op> = Vec::with_capacity(batches.iter().map(Batch::len).sum());
    ops.extend(batches.into_iter().flat_map(Batch::into_ops));
    // The sort is stable: after reversing, the last of several ops with one key comes first, and is kept.
    ops.reverse();
    ops.sort_by(|a, b| a.key().cmp(b.key()));
    ops.dedup_by(|later, kept| later.key() == kept.key());
    debug_assert!(ops.is_sorted_by(|a, b| a.key() < b.key()), "a group writes each key once, in order");
    ops
}

impl Engine for LocalEngine {
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()> {
        Answer::Now(self.write(batches))
    }

    fn sync(&self) -> Answer<'_, ()> {
        Answer::Now(self.sync_journal())
    }

    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        match self.pace.way() {
            Way::InTheCall { measured } => {
                Answer::Now(self.pace.read(measured, one_key, || get(&self.rows, key)))
            }
            Way::Elsewhere => {
                let (rows, key) = (self.rows.clone(), key.to_vec());
                elsewhere(&self.pace, move || get(&rows, &key))
            }
        }
    }

    fn moment(&self) -> u64 {
        self.database.visible_seqno()
    }

    fn view(&self) -> Box<dyn EngineView> {
        Box::new(LocalView::new(self.database.snapshot(), self.rows.clone(), self.pace.clone()))
    }

    fn loads(&self) -> bool {
        true
    }

    fn load(&self, rows: &mut (dyn Iterator<Item = Row> + Send)) -> Result<(), StorageError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let loaded = self.load_rows(rows);
        self.loads.fetch_sub(1, Ordering::Relaxed);
        loaded
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::Now(self.sort_memtables())
    }

    fn drop_prefix(&self, prefix: &[u8]) -> Answer<'_, bool> {
        // A restore to a point in time repeats the log, and would miss a drop that is not in it.
        let dropped = match self.kept_log.get() {
            Some(_) => Ok(()),
            None => drop_within((&self.database, &self.rows), prefix, || self.sort_memtables()),
        };
        Answer::Now(dropped.map(|()| false))
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::Now(self.sort_memtables().inspect(|()| self.mark_closed()))
    }

    fn keep_log(&self, window: Option<Duration>) -> Answer<'_, ()> {
        let Some(window) = window else { return Answer::Now(wal_archive::forget(self.directory.path())) };
        Answer::Now(KeptJournals::begin(self.directory.path(), window).and_then(|kept| {
            self.kept_log.set(kept).map_err(|_| StorageError::io("the log is kept already"))
        }))
    }

    fn checkpoint(&self, name: &str) -> Answer<'_, ()> {
        Answer::Now(self.log_position_from(&LogPosition::default()).and_then(|position| {
            self.sort_memtables()?;
            checkpoint::make(self.directory.path(), (self.opened.tolerance, &position), name)
        }))
    }

    fn log_position(&self, from: &LogPosition) -> Answer<'_, LogPosition> {
        Answer::Now(self.log_position_from(from))
    }

    fn checkpoint_from(&self, name: &str, flushed: &LogPosition) -> Answer<'_, ()> {
        let synced = self.database.persist(PersistMode::SyncAll).map_err(StorageError::from);
        let make = || {
            self.kept_log.get().map_or(Ok(()), KeptJournals::look).map_err(StorageError::io)?;
            checkpoint::make(self.directory.path(), (self.opened.tolerance, flushed), name)
        };
        Answer::Now(synced.and_then(|()| make()))
    }

    fn open_checkpoint(&self, name: &str) -> Answer<'_, Arc<dyn Engine>> {
        let directory = checkpoint::directory_of(self.directory.path(), name);
        Answer::Now(match Inspection::open(&directory, self.directory.path()) {
            Ok((inspection, _report)) => Ok(Arc::new(inspection)),
            Err(StorageError::Missing { .. }) => Err(StorageError::CheckpointMissing),
            Err(error) => Err(error),
        })
    }

    fn remove_checkpoint(&self, name: &str) -> Answer<'_, ()> {
        Answer::Now(checkpoint::remove(self.directory.path(), name))
    }

    fn checkpoints(&self) -> Answer<'_, Vec<String>> {
        Answer::Now(checkpoint::names(self.directory.path()))
    }

    fn kept_files(&self, name: &str) -> Answer<'_, KeptFiles> {
        let directory = checkpoint::directory_of(self.directory.path(), name);
        Answer::Now(match KeptFiles::of_directory(&directory) {
            Err(StorageError::Missing { .. }) => Err(StorageError::CheckpointMissing),
            kept => kept,
        })
    }

    fn lets_writers_lead(&self) -> bool {
        true
    }

    fn may_be_held_up(&self) -> bool {
        self.loads.load(Ordering::Relaxed) > 0 || self.has_no_room()
    }

    fn disk_bytes(&self) -> u64 {
        allocated_bytes(self.directory.path()).unwrap_or(0)
    }

    fn state(&self) -> EngineState {
        let blocks = self.rows.metrics();
        let count = |number: usize| number as u64;
        EngineState {
            journal_bytes: journal::allocated_bytes(&self.directory.database()).ok(),
            block_cache: Some(CacheState {
                hits: count(blocks.block_load_cached_count()),
                misses: count(blocks.block_load_io_count()),
                bytes: self.database.cache_size(),
                bytes_max: self.database.cache_capacity(),
            }),
            compaction: Some(CompactionState {
                memtables_waiting: count(self.rows.sealed_memtable_count()),
                first_level_tables: count(self.rows.l0_table_count()),
                active: count(self.database.active_compactions()),
                completed: count(self.database.compactions_completed()),
                duration: self.database.time_compacting(),
            }),
            log_begins: self.kept_log.get().and_then(KeptJournals::begins),
        }
    }

    fn disk_free_bytes(&self) -> Option<u64> {
        free_disk_bytes(self.directory.path()).ok()
    }
}

fn get(rows: &Keyspace, key: &[u8]) -> Result<Option<Value>, StorageError> {
    Ok(rows.get(key)?.map(Bytes::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_writes_of_a_key_the_last_is_kept() {
        let put = |key: &'static str, value: &'static str| Op::Put {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
        };
        let long = ["partition-and-family-1", "partition-and-family-2", "partition-and-f"];
        let mut first = Batch::new();
        for key in ["b", "a", "a\0", long[1], long[0], long[2], "a"] {
            first.put(key, "first");
        }
        let mut second = Batch::new();
        second.put(long[0], "second");
        second.delete("b");
        second.put("a", "second");
        second.put("a", "third");
        let expected = vec![
            put("a", "third"),
            put("a\0", "first"),
            Op::Delete { key: Bytes::from_static(b"b") },
            put(long[2], "first"),
            put(long[0], "second"),
            put(long[1], "first"),
        ];
        assert_eq!(last_of_each_key(vec![first, second]), expected);
    }
}
