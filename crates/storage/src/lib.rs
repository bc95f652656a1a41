//! An ordered, durable keyspace of bytes: the only thing the database knows of disks.
//!
//! | file | content |
//! |---|---|
//! | `shard.rs` | the handle: queueing commits, watermarks, reads, closing |
//! | `shared.rs` | the state that handles and the committer share |
//! | `options.rs`, `pending_commit.rs` | options to open a shard; a writer's handle of its commit |
//! | `bulk.rs` | work on whole ranges: dropping, filling, measuring |
//! | `queue.rs` | queued commits and how they are cut into groups |
//! | `committer.rs` | the one thread that merges queued commits into one engine write and one sync |
//! | `pipeline.rs` | the same work as a task, for engines that answer later |
//! | `large_commits.rs` | permits of large commits, so that small ones never have many rows before them |
//! | `background_pace.rs`, `background.rs` | how much of its time background work may take; its pieces and rests |
//! | `engine.rs` | interface of an engine |
//! | `rows.rs` | rows, and rows of a range that is kept in memory |
//! | `local.rs`, `local_view.rs`, `local_database.rs` | the engine on a local disk, with fjall; opening its database |
//! | `slow_reads.rs`, `readers.rs` | whether its reads are quick, and the threads that do them when they are not |
//! | `memory.rs` | the engine in memory |
//! | `object/` | the engine on an object store, with SlateDB (feature `object-storage`) |
//! | `journal.rs` | judges the end of fjall's journals before fjall replays them |
//! | `journal_mark.rs` | a shard's record of its journals, to distinguish more rot from torn writes |
//! | `incremental_sync.rs` | syncs the tables of a load as they grow |
//! | `table_drop.rs` | drops tables that hold only rows to be deleted |
//! | `memtable_reclaim.rs` | frees sorted memtables where no client waits for it |
//! | `key_kinds.rs` | which keys the local engine need not find one by one |
//! | `journal_preallocation.rs` | writes zeros ahead of a journal's end, so that syncs of small groups are short |
//! | `files.rs` | looks for every file of a database before fjall may repair by deleting |
//! | `inspection.rs` | reads a shard that no process has open, and changes no byte of it |
//! | `checkpoint.rs`, `copying.rs` | keeps a state of a shard by name; copies of its files |
//! | `wal_archive/`, `restore_point.rs`, `replay.rs`, `wal_copy.rs` | the archived log: restores to a point in time between two backups; a copy that follows its original |
//! | `shard_set_checkpoint.rs`, `kept_files.rs` | a checkpoint of several shards at one point in time; the files that a checkpoint consists of |
//! | `shard_metrics.rs` | work, caches and health of a shard in numbers |
//! | `disk_space.rs` | the disk space of files |
//! | `directory.rs`, `epoch.rs` | a local shard's directory: its lock, its format and its last owner |
//! | `view.rs`, `scan.rs` | views for readers: the acknowledged state, its keys and its ranges |
//! | `row_cache.rs`, `cached_view.rs` | rows that are read again and again, in front of the engine; a view with them |
//! | `range_cache.rs`, `cached_scan.rs` | ranges that are scanned again and again; a scan of them and of the gaps between |
//! | `answer.rs` | an answer that is there at once or comes later |
//! | `witness.rs` | proves that no planner waits for an engine while it plans a commit |
//! | `batch.rs`, `error.rs` | a commit's content and its place in the order; errors |
//! | `fault.rs`, `slow.rs` | for tests: an engine that fails and forgets on purpose, and one far away |
//! | `suite.rs` | for tests: requirements on every engine |
//!
//! Guarantees: commits are atomic and take effect in the order in which [`Shard::commit`] was
//! called; a commit's future resolves when it is durable; reads show the acknowledged state only;
//! after a failed write or sync no commit is accepted until the shard is opened again, and reads
//! still return the state that was acknowledged before. Nothing here knows a document.

mod answer;
mod background;
mod background_pace;
mod batch;
mod bulk;
mod cached_scan;
mod cached_view;
mod checkpoint;
mod committer;
mod copying;
#[cfg(feature = "testing")]
pub mod counted;
mod directory;
mod disk_space;
mod engine;
mod epoch;
mod error;
#[cfg(feature = "testing")]
pub mod fault;
mod files;
mod incremental_sync;
mod inspection;
mod journal;
mod journal_mark;
mod journal_preallocation;
mod kept_files;
mod key_kinds;
mod large_commits;
mod lease;
mod local;
mod local_database;
mod local_view;
mod memory;
mod memtable_reclaim;
#[cfg(feature = "object-storage")]
pub mod object;
mod options;
mod pending_commit;
mod pipeline;
mod queue;
mod range_cache;
mod readers;
mod replay;
mod restore_point;
mod row_cache;
mod rows;
mod scan;
mod shard;
mod shard_metrics;
mod shard_set_checkpoint;
mod shared;
#[cfg(feature = "testing")]
pub mod slow;
mod slow_reads;
#[cfg(feature = "testing")]
pub mod suite;
mod sync_under_way;
mod synced;
mod table_drop;
mod view;
mod wal_archive;
mod wal_copy;
pub mod witness;

pub use answer::{Answer, Lookup, Resolve};
pub use background::PacedWork;
pub use batch::{Batch, Op, Seq};
pub use bulk::{BulkLoad, RangeStats};
pub use cached_view::CachedView;
pub use engine::{CONCURRENT_READS_MAX, Engine, EngineScan, EngineView, KEY_BYTES_MAX, ScanOptions};
pub use error::StorageError;
pub use inspection::{InspectionReport, TornWrite};
pub use journal_mark::LogPosition;
pub use kept_files::{KeptFile, KeptFiles, TableChecksum, TableSum, check_copied_journals};
pub use key_kinds::posting_path_bytes;
pub use large_commits::{LARGE_ROWS_IN_FLIGHT, OVERSIZE_COMMIT_ROWS, RowsPermit, SMALL_COMMIT_ROWS};
pub use lease::{Began, Lease};
pub use memory::MemoryEngine;
pub use options::{Durability, EngineKind, ShardOptions};
pub use pending_commit::PendingCommit;
pub use range_cache::LayoutOf;
pub use replay::{Reached, Replay};
pub use row_cache::{CachedRow, Found};
pub use rows::{Chunk, Extract, KeptRows, Row, Value};
pub use scan::Scan;
pub use shard::Shard;
pub use shard_metrics::{CacheState, CompactionState, EngineState, ShardMetrics};
pub use view::View;
pub use wal_archive::{HistoryOptions, Stamp};
pub use wal_copy::{Followed, Follower, LogTail};

/// [`View`] by its old name.
pub type Snapshot = View;
