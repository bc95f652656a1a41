//! An account: every operation of the database in model types, and the only API for front ends. It opens the parts and shows them.
//!
//! | file | contents |
//! |---|---|
//! | `account.rs` | opens and closes an account; its crates |
//! | `expiry.rs` | removes documents that an index has expired |
//! | `index_reads.rs` | reads of indexes that wait for writes of their source |
//!
//! A front end resolves a container once per request and hands the [`ContainerHandle`] to the item
//! operations. The catalog is an immutable value behind an atomic pointer: readers take no lock,
//! changes are made durable before they are visible.

mod account;
mod expiry;
mod index_reads;

pub use account::{
    Account, AccountOptions, AccountStatistics, METADATA_READ_CHARGE_CENTI, METADATA_WRITE_CHARGE_CENTI,
    ShardState,
};
pub use shardlake_backup::{
    BackupOutcome, Backups, EndedBackup, KeptState, LastBackups, Moment as BackupMoment, MomentOfPartition,
    PIECE_BYTES_MAX as BACKUP_PIECE_BYTES_MAX, describe as describe_moment,
};
pub use shardlake_capacity::budget::BudgetReport;
pub use shardlake_capacity::diagnosis::{
    Action as FindingAction, Evidence, EvidenceValue, Finding, FindingKind,
};
pub use shardlake_capacity::policy::{NextStep, SplitReason};
/// Where each shard has the place of its log.
pub use shardlake_catalog::stamp_key;
pub use shardlake_catalog::{
    AnalyticalMode, AnalyticalRecord, AnalyticalSchema, AnalyticalSettings, FunctionDefinition,
    FunctionRecord, FunctionVersion, MatchPair, ProjectionCounts, ProjectionRule, ProjectionSource,
    ProjectionStart, ProjectionTarget, SecondaryIndexRecord, SecondaryIndexState, SetPair,
};
pub use shardlake_copies::{
    AtLeast, Difference, DifferenceKind, DuplicateRow, Duplicates, IndexReport, IndexVerification, Refusal,
    Repair, VerifyState,
};
pub use shardlake_definitions::{
    GrantedChild, IndexOfSource, IndexSettingsChange, ResourceLink, ScriptWrite, SecondaryIndexView,
    stored_definitions,
};
/// Parts of a patch, for front ends that make one themselves.
pub use shardlake_document::{
    Body, ItemId, ItemName, Number, ParseLimits, PatchOperation, Value, parse_partition_key,
};
pub use shardlake_functions::{
    FunctionAsked, FunctionLogLine, FunctionPut, FunctionReport, FunctionState, FunctionTrial, ReplayFrom,
    name_of as name_of_write,
};
pub use shardlake_heat::{HeatKind, HeatReport, PERIODS as HEAT_PERIODS, Series};
pub use shardlake_items::{
    BulkOnError, ChangeFeedPage, ChangeFeedRequest, FEED_WAIT_MAX, FeedPage, FeedScope, FeedStart,
    ItemOperation, ItemRead, ItemWrite, KeyedOperation, OpenTransaction, Patch, PolicyPreview, ReadCommand,
    SAMPLE_ITEMS_MAX, Schema, SchemaPath, TransactionSpace, Triggers, WriteCommand, WriteReply, item_of_json,
    item_of_json_in, key_of_another_partition,
};
pub use shardlake_maintenance::{
    AccountPulse, ContainerLoad, ContainerPulse, ContainerReport, HEAT_MAP_BEFORE, HEAT_ROWS_MAX, HeatMap,
    HeatMapRequest, HeatMeasure, KeyHeat, KeyReport, LargeKey, PartitionLoad, PulseSpan, Purging,
    RangeReport, RelocationHooks, RelocationLoad, RelocationTicket, SplitAt, VerifyReport, periods_of,
    verify, verify_shards,
};
/// Containers as collections of documents, for the front end that speaks of them.
pub use shardlake_mongo as collections;
pub use shardlake_partition::{BatchFailure, BatchReply, ItemReply, Outcome, StoredItem, Uncommitted};
pub use shardlake_partition::{Change, ChangeFeedMode, ChangeSink, JsonChanges, JsonChangesWithMetadata};
pub use shardlake_partition::{ChangeKind, ChangePage, SeededBug};
/// For work of front ends on large bodies.
pub use shardlake_partition::{HEAVY_BYTES, Permit as BodyPermit, offload};
pub use shardlake_partition::{PolicyFigures, QueryStatistics, QueryWay, is_scanned};
pub use shardlake_procedures::{
    ProcedureReply, ScriptTrial, ScriptedWrite, TrialReply, TrialRole, TrialWrite,
};
pub use shardlake_projections::{ProjectionLag, ProjectionPut, ProjectionReport, ProjectionState};
pub use shardlake_queries::{
    ItemsRequest, PlanRange, PlanReply, QueryFigures, QueryPreview, QueryProspect, QueryReply, QueryRequest,
    QueryWants, RangeFigures,
};
pub use shardlake_router::{
    AccountMark, CapacityMode, ContainerHandle, ContainerUsage, Earlier, Enforcement, EpochRange,
    HeatRecording, HistoryEvent, HistoryEventKind, PastRelocation, RangeStatistics, Reach, RelocationKind,
    RelocationReport, RelocationStatus, RelocationStep, SHARDS_MAX, Shards, ThroughputReport, key_misfit,
};
pub use shardlake_routing::{Epk, KeyRange};
pub use shardlake_script::changes::{FunctionWriteKind, FunctionWriteOrder};
/// Main function of a process that was started as a worker of [`ScriptSettings`], until its server ends.
pub use shardlake_script::worker_main as script_worker_main;
pub use shardlake_script::{
    Confined as ScriptConfined, Layer as ScriptConfinementLayer, ScriptSettings, WorkerKind,
};
/// The query language, for front ends that filter metadata feeds.
pub use shardlake_sql as sql;
/// Files of a state that is kept for a backup.
pub use shardlake_storage::{KeptFile, KeptFiles, Stamp};
