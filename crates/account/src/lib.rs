//! The façade: every operation of the database in model types, and the only door for front ends.
//!
//! | file | what it does |
//! |---|---|
//! | `account.rs` | opens and closes an account; what it holds |
//! | `orders.rs` | what an operator may ask and order |
//! | `databases.rs`, `containers.rs`, `offers.rs` | operations on those resources |
//! | `users.rs`, `permissions.rs` | users of a database; what a permission grants, and whether it still does |
//! | `command.rs` | what front ends ask for on items, as data |
//! | `items.rs`, `batch.rs`, `feed.rs` | operations on items |
//! | `json_items.rs` | items as JSON, for scripts and for front ends that speak it |
//! | `scripts.rs` | stored procedures, triggers and user-defined functions as resources |
//! | `script_run.rs`, `script_run_store.rs`, `script_run_links.rs`, `triggers.rs` | stored procedures, and writes with triggers: transactions of a logical partition |
//! | `change_feed.rs`, `change_feed_position.rs` | what changed, page by page; where a reader stands |
//! | `query.rs`, `query_targets.rs`, `query_page.rs`, `query_fan_out.rs`, `query_token.rs`, `query_cache.rs` | queries: pages, where they go, their tokens, parsed texts |
//! | `projections/` | rules that keep denormalised copies true |
//! | `verify.rs` | checks everything stored against itself |
//!
//! A front end resolves a container once per request and hands the [`ContainerHandle`] to the item operations. The catalog
//! is an immutable value behind an atomic pointer: readers take no lock, changes are made durable before they show.

mod account;
mod batch;
mod change_feed;
mod change_feed_position;
mod command;
mod containers;
mod databases;
mod feed;
mod items;
mod json_items;
mod offers;
mod orders;
mod permissions;
mod processor_tab;
mod projections;
mod query;
mod query_cache;
mod query_charge;
mod query_fan_out;
mod query_former;
mod query_functions;
mod query_key;
mod query_page;
mod query_targets;
mod query_token;
mod script_run;
mod script_run_links;
mod script_run_store;
#[cfg(test)]
mod script_run_tests;
mod scripts;
mod triggers;
mod users;
mod verify;

pub use account::{
    Account, AccountOptions, AccountStatistics, METADATA_READ_CHARGE_CENTI, METADATA_WRITE_CHARGE_CENTI,
};
pub use batch::BulkOnError;
pub use change_feed::{ChangeFeedPage, ChangeFeedRequest, FEED_WAIT_MAX, FeedStart};
pub use command::{
    ItemOperation, ItemRead, ItemWrite, KeyedOperation, Patch, ReadCommand, Triggers, WriteCommand,
    WriteReply,
};
pub use feed::{FeedPage, FeedScope};
pub use json_items::item_of_json;
pub use permissions::{GrantedChild, ResourceLink};
pub use projections::{ProjectionLag, ProjectionPut, ProjectionReport, ProjectionState};
pub use query::{ItemsRequest, PlanReply, QueryReply, QueryRequest, QueryWants};
pub use query_targets::PlanRange;
pub use script_run::ProcedureReply;
pub use scripts::ScriptWrite;
pub use shardlake_capacity::budget::BudgetReport;
pub use shardlake_capacity::diagnosis::{Evidence, EvidenceValue, Finding, FindingKind};
pub use shardlake_capacity::policy::{NextStep, SplitReason};
pub use shardlake_catalog::{
    MatchPair, ProjectionCounts, ProjectionRule, ProjectionSource, ProjectionStart, ProjectionTarget, SetPair,
};
/// What a patch is made of, for front ends that make one themselves.
pub use shardlake_document::{Body, ItemId, ItemName, Number, ParseLimits, PatchOperation, Value};
pub use shardlake_heat::{HeatReport, Series};
pub use shardlake_partition::QueryStatistics;
pub use shardlake_partition::{BatchFailure, BatchReply, ItemReply, Outcome, StoredItem};
pub use shardlake_partition::{Change, ChangeFeedMode, ChangeSink, JsonChanges};
pub use shardlake_partition::{ChangeKind, ChangePage, SeededBug};
/// Where front ends work on what is large.
pub use shardlake_partition::{HEAVY_BYTES, Turn as BodyRoom, beside};
pub use shardlake_routing::EpkRange;
/// What the program does that was started as a worker of [`ScriptSettings`], until its server ends.
pub use shardlake_script::worker_main as script_worker_main;
pub use shardlake_script::{
    Confined as ScriptConfined, Layer as ScriptConfinementLayer, ScriptSettings, WorkerKind,
};
pub use shardlake_serving::{
    AccountMark, CapacityMode, ContainerHandle, ContainerUsage, Enforcement, HeatRecording, RangeStatistics,
    RelocationKind, RelocationReport, RelocationStatus, RelocationStep, SHARDS_MAX, Shards, ThroughputReport,
    key_misfit,
};
/// The query language, for front ends that filter metadata feeds.
pub use shardlake_sql as sql;
pub use shardlake_upkeep::{
    ContainerLoad, ContainerReport, LargeKey, PartitionLoad, Purging, RangeReport, RelocationHooks,
    RelocationTicket, SplitAt,
};
pub use verify::{VerifyReport, verify};
