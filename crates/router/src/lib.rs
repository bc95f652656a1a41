//! Containers as they run, and the way of an operation to its partition.
//!
//! | file | contents |
//! |---|---|
//! | `serving.rs` | opens [`Serving`], the API of this crate: the shards, the catalog, and the surroundings of every operation |
//! | `shards.rs`, `membership.rs` | the stores that hold the data; whether they belong to one account |
//! | `live_catalog.rs` | the definitions in force (`shardlake-catalog`), and the state that runs for them |
//! | `definition_change.rs` | the one way to change a definition, and its consequences |
//! | `strays.rs` | data that belongs to no container, which a start deletes |
//! | `container_handle.rs`, `script_handle.rs` | a container as an operation holds it, with its scripts |
//! | `motion.rs`, `generations.rs` | state that the entries share about relocations; generations of the index |
//! | `history_event.rs` | events of a container's history |
//! | `history.rs` | the container's past: ranges, budgets, relocations, the heat of ended partitions |
//! | `lookup.rs` | from names or rids to databases and containers |
//! | `keys.rs` | from a partition key or a body to the partition that owns it |
//! | `handle.rs` | a partition by its address |
//! | `index_rows.rs` | rows of global secondary indexes, for commits of their sources and for their follower |
//! | `index_groups.rs` | groups of such indexes: contributions of items, those that ended in the log |
//! | `routing.rs` | from an operation to the partition that owns its key, with a retry where that has moved |
//! | `log_holds.rs` | how far back the change logs are kept for followers |
//! | `throughput.rs` | the budgets of containers |
//! | `request_memory.rs` | memory budgets for answers, and for requests with large bodies |
//! | `refusals.rs` | errors of resources that are not found, or not changed |
//!
//! The catalog is an immutable value behind an atomic pointer: readers take no lock, changes are made durable
//! before they are visible. Nothing here depends on background work: `maintenance` and `projections` watch
//! the catalog's version.

mod container_handle;
mod definition_change;
mod earlier;
mod generations;
mod handle;
mod history;
mod history_event;
mod index_groups;
mod index_rows;
mod keys;
mod live_catalog;
mod log_holds;
mod lookup;
mod membership;
mod motion;
mod refusals;
mod request_memory;
mod routing;
mod script_handle;
mod serving;
mod shards;
mod strays;
mod throughput;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use shardlake_catalog::Writer;
use shardlake_charge::ChargeTable;
pub use shardlake_host::HeatRecording;
use shardlake_host::HostEnvironment;
use shardlake_model::{ConsistencyLevel, Limits};
use shardlake_partition::CpuPool;
use shardlake_stdx::{Clock, CommitTimes, Random};
use tokio::sync::{Notify, watch};

use log_holds::MovedHolds;
use throughput::DatabaseBudgets;

pub use container_handle::{ContainerEntry, ContainerHandle, ContainerUsage, NOT_ON_VIEWS, RangeStatistics};
pub use definition_change::uninterrupted;
pub use earlier::{
    EARLIER_BYTES_MAX, Earlier, EarlierEpoch, EarlierEvent, EarlierPartition, EarlierPeriod, EarlierRange,
};
pub use generations::{BuildProgress, Layouts, index_moved_to, index_of_new, layouts_of};
pub use handle::{PartitionHandle, Reach};
pub use history::{ContainerHistory, Epoch, EpochRange, HistoryEvent, Past, PastPartition, PastRelocation};
pub use history_event::HistoryEventKind;
pub use index_groups::{ContributionsOfItem, EndedContribution, KeyedContribution, NO_CONTRIBUTIONS};
pub use index_rows::{EndedIndexRow, IndexRows, KeyedRow, RowsOfItem};
pub use keys::{
    body_key, checked_key, key_misfit, key_of_read, key_of_write, logical, mismatch, own_key_of_read,
    partition_of,
};
pub use live_catalog::{DatabaseEntry, LiveCatalog, bounds_of, identity_of};
pub use membership::{AccountMark, problems as membership_problems};
pub use motion::{Motion, MotionState, RelocationKind, RelocationReport, RelocationStatus, RelocationStep};
pub use refusals::{catalog_error, check_preconditions, conflict, not_found, owner_not_found, was_deleted};
pub use request_memory::{try_take_space, wait_for_space};
pub use routing::Routing;
pub use script_handle::{ScriptSegment, find_script};
pub use serving::ServingOptions;
/// Definitions in force, and recently ended containers.
pub use shardlake_catalog::{Definitions, EndedContainer};
pub use shardlake_storage::PacedWork;
pub use shards::{SHARDS_MAX, Shards};
pub use strays::{NumbersOnShard, known_partitions};
pub use throughput::{CapacityMode, Enforcement, ThroughputReport, ThroughputRules};

/// Containers as they run, and the way to their partitions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Serving(pub(crate) Arc<ServingState>);

#[derive(Debug)]
pub(crate) struct ServingState {
    pub(crate) shards: Shards,
    pub(crate) limits: Arc<Limits>,
    pub(crate) charges: ChargeTable,
    pub(crate) clock: Clock,
    pub(crate) times: CommitTimes,
    pub(crate) random: Random,
    pub(crate) consistency: ConsistencyLevel,
    pub(crate) throughput: ThroughputRules,
    pub(crate) database_budgets: DatabaseBudgets,
    pub(crate) environment: Arc<HostEnvironment>,
    pub(crate) reach: Reach,
    pub(crate) catalog: ArcSwap<LiveCatalog>,
    /// The version of `catalog`, for tasks that wait for the next one.
    pub(crate) catalog_version: watch::Sender<u64>,
    pub(crate) catalog_writer: Writer,
    /// No relocation begins any more, and background work ends.
    pub(crate) is_closing: AtomicBool,
    /// Holds on logs that have moved and are not stored yet.
    pub(crate) moved_holds: MovedHolds,
    /// Notified when a throughput was changed.
    pub(crate) offers_changed: Arc<Notify>,
    /// Memory budget for the bodies of heavy writes.
    pub(crate) heavy_bodies: CpuPool,
}
