//! One physical partition: items, unique keys, time to live, transactions, the change log, charges.
//!
//! | file | content |
//! |---|---|
//! | `partition.rs`, `calls.rs` | the partition: its life and point reads; methods that the modules below carry out |
//! | `core.rs` | the state that commits and reads share; every module takes it |
//! | `sequencer.rs`, `end.rs` | the order of writes, and the guards that hold the sequencer; why a partition answers no more |
//! | `acknowledged.rs` | the last LSN and the totals that storage has acknowledged |
//! | `write/` | a write: its operations, the transaction that plans their commit, unique keys, bounds |
//! | `commit.rs`, `read_set.rs` | from a command to a commit: read, plan, queue; the reads of a plan |
//! | `deferred.rs` | commits of one command that are waited for together |
//! | `unique_rule.rs`, `narrowing.rs` | which items a unique key is about |
//! | `origin.rs` | a partition's identity, and that part of it which replies and ordinals need |
//! | `answers.rs` | refusals, conditions, replies to reads |
//! | `prepare.rs`, `partition_key.rs` | a body made ready for a write; its partition key |
//! | `open_transactions/` | logical partitions and rows that open transactions hold |
//! | `interactive/` | transactions that take their time: those of scripts, and those of clients |
//! | `cpu_pool.rs` | permits for work that is too long for the threads that answer requests |
//! | `pending.rs` | queued commits that the engine does not show yet |
//! | `delete_key.rs`, `deletion.rs` | deleting a whole logical partition; deleting the items that a scan has found |
//! | `oldest.rs` | the oldest items, which give way where a container keeps the newest only |
//! | `insertion_order.rs` | pages of items in the order of their creation |
//! | `feed.rs` | pages of items in key order |
//! | `query/` | a page of a query: the access chosen, items fed to the executor |
//! | `keys.rs` | the layout of keys in the shard |
//! | `log/`, `changes/` | the change log: its entries, marks and holds; reading it |
//! | `change_feed.rs`, `all_versions.rs`, `commit_waiters.rs` | a page of the change feed; tasks that wait for the next change |
//! | `times.rs` | commits in the order of their times, over several partitions |
//! | `versions.rs` | versions that have ended |
//! | `watch.rs`, `copies/` | rows of copies that end with a version; writing the rows of a copy |
//! | `functions/` | writes of functions on the change feed, each once |
//! | `index/`, `body_terms.rs` | the inverted index as it is stored and maintained; the terms of one body |
//! | `tasks/` | compaction of the log, filling a generation of the index, counting a path |
//! | `relocate/` | moving everything to other partitions: the data's side of split, merge and move |
//! | `policy_preview.rs`, `query_sketch.rs` | charges of writes and queries under another indexing policy, from a sample |
//! | `item.rs`, `shape.rs` | a stored item, its container's compiled policies |
//! | `sizes/`, `size_reports.rs` | the size of every logical partition; sizes that are asked for |
//! | `reclaim.rs` | removes items whose time has run out, or the oldest, where there is no room |
//! | `expire/`, `due.rs` | removes them everywhere, in the background; when items run out |
//! | `seeded.rs`, `describe.rs` | mistakes that tests make on purpose; descriptions of stored rows |
//! | `invariants/` | predicates that commits assert and `verify` reports |
//! | `verify.rs`, `verify_versions.rs`, `verify_expiry.rs` | walks everything stored and compares it with itself |
//!
//! It never sees a socket, a header or a status number; time, identifiers and randomness arrive with each command.

mod acknowledged;
mod all_versions;
mod answers;
mod body_terms;
mod calls;
mod change_feed;
mod change_sink;
mod changes;
mod commit;
mod commit_waiters;
mod copies;
mod core;
mod cpu_pool;
mod deferred;
mod delete_key;
mod deletion;
#[cfg(feature = "testing")]
mod describe;
mod due;
mod end;
#[cfg(test)]
mod envelope_tests;
mod expire;
mod feed;
mod functions;
mod index;
mod insertion_order;
mod interactive;
mod invariants;
mod item;
mod key_list;
mod keys;
mod log;
#[cfg(test)]
mod model_tests;
mod narrowing;
mod oldest;
mod open_transactions;
mod operation;
mod origin;
mod partition;
mod partition_key;
mod pending;
mod policy_preview;
mod prepare;
mod query;
mod query_sketch;
mod read_set;
mod reclaim;
mod relocate;
#[cfg(feature = "testing")]
pub mod seeded;
mod sequencer;
mod shape;
mod size_reports;
mod sizes;
#[cfg(test)]
mod slow_tests;
mod statements;
#[cfg(test)]
mod summary_tests;
mod tasks;
#[cfg(test)]
mod test_fixture;
mod times;
mod unique_rule;
#[cfg(test)]
mod unsynced_tests;
mod verify;
mod verify_expiry;
mod verify_versions;
mod versions;
mod watch;
mod write;

pub use calls::trim;
pub use change_feed::not_enabled as all_versions_not_enabled;
pub use change_feed::{ChangeFeedMode, FeedFound, FeedLook};
pub use change_sink::{Change, ChangeSink, JsonChanges, JsonChangesWithMetadata};
pub use changes::items_round::{ItemRow, ItemsRound};
pub use changes::logical_items::LogicalItems;
pub use changes::reader::{ChangePage, PartitionPosition, position_of};
pub use changes::round::{Image, Images, LogChange, Round, RoundError, RoundPage, RoundView};
pub use copies::{
    CopyBatch, CopyReply, CopyRow, OtherSource, ROW_NAME, Rank, RefusedRow, RowStamp, UniqueReply,
    duplicate_id, key_name, logical_name, renamed, with_row_name,
};
pub use cpu_pool::{CpuPool, HEAVY_BYTES, Permit, offload};
pub use deferred::Deferred;
#[cfg(feature = "testing")]
pub use describe::{describe_row, owner_of_row};
pub use end::End;
pub use expire::{Sweep, SweepStep};
pub use feed::{FeedFilter, PageLimits, PartitionPage, epk_of_position, item_of_position};
pub use functions::{
    FunctionBatch, FunctionOperation, FunctionOutcome, FunctionProgress, FunctionReply, FunctionWrite,
    RefusedWrite,
};
pub use insertion_order::{InsertionPage, InsertionPosition, read_in_order};
pub use interactive::{
    LogicalTransaction, SnapshotTransaction, TRANSACTION_TOO_LARGE, TransactionView, Uncommitted,
};
pub use item::StoredItem;
pub use keys::{PartitionUid, is_scanned, partition_range};
pub use log::entry::{ChangeKind, Counters, EndedRow, LogEntry, LogOperation};
pub use log::holds::HeldLsns;
pub use open_transactions::OwnItems;
pub use operation::{
    BatchFailure, BatchReply, CommandContext, CommitOptions, ItemReply, LogicalKey, MembersText, Operation,
    Outcome, PreparedBody,
};
pub use origin::PartitionIdentity;
pub use partition::Partition;
pub use partition_key::extract_partition_key;
pub use policy_preview::{PolicyFigures, policy_figures};
pub use prepare::{prepare, prepare_body, validate_item_id};
pub use query::{
    MakeFunctions, Outlook, PageWork, QueryPage, QueryPageRequest, QueryStatistics, TimeTest,
    position_of_state, state_of_position,
};
pub use query_sketch::{PageSketch, QuerySketch, QueryWay, SampledIndex, SampledItems, SketchedPart};
pub use relocate::{Cutover, Haste, Relocation, RelocationProgress, RelocationTarget, SeededBug};
pub use shape::{
    ContainerSchema, computed_definitions, computed_properties, retention_of, unique_values_of,
    validate_computed_properties,
};
#[cfg(feature = "testing")]
pub use shardlake_index::witness;
pub use shardlake_mql::write::DocumentChange;
pub use size_reports::SizedKey;
pub use sizes::LogicalSize;
pub use statements::{
    KeptStatements, SessionName, SessionWrite, StatementNote, StatementRow, forget_statements,
    is_statement_key, kept_statements, wait_for_queued,
};
pub use tasks::{BuildEnd, Compaction, CompactionStep};
pub use verify::{PartitionReport, verify_partition};
pub use watch::{ENDED_ROWS_MAX, EndedVersion, Watch};
pub use write::{BEYOND_BOUNDS, PartitionWrite};

use std::time::Duration;

use shardlake_model::{Error, ErrorKind};
use shardlake_storage::StorageError;

/// Converts a storage failure for the caller.
pub fn storage_error(error: StorageError) -> Error {
    let kind = match &error {
        StorageError::Overloaded => ErrorKind::TooManyRequests,
        StorageError::Corrupt { .. } => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    };
    let retry_after = match &error {
        StorageError::Unavailable { retry_after } => Some(*retry_after),
        // Another owner is known, or the lease is renewed, within a second.
        StorageError::Fenced { .. } | StorageError::NotLeased => Some(Duration::from_secs(1)),
        _ => None,
    };
    let told = Error::new(kind, error.to_string()).with_source(error);
    match retry_after {
        Some(wait) => told.with_retry_after_ms(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        None => told,
    }
}

pub(crate) fn corrupt(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a stored record is damaged: {error}")).with_source(error)
}

pub(crate) fn malformed_key() -> Error {
    Error::new(ErrorKind::Corrupt, "a stored key is malformed")
}
