//! The catalog: the definitions of everything in an account, and the one way to change them.
//!
//! | file | contents |
//! |---|---|
//! | `records.rs`, `projection.rs` | the stored records: plain data, no handle to anything that runs |
//! | `log_hold.rs` | how far back the change log is kept for its followers |
//! | `analytical.rs`, `analytical_folder.rs` | analytical stores: settings and orders; folders of tables |
//! | `secondary_index.rs` | global secondary indexes: source, query and state |
//! | `function.rs` | functions over changes: definition, code and its versions |
//! | `ended.rs` | ended containers, for change streams |
//! | `table.rs`, `definitions.rs` | all records of one version, cheap to copy and to compare |
//! | `stored.rs` | keys, checksums, loading |
//! | `change.rs` | the difference between two versions, and the batch that stores it |
//! | `predicates.rs` | conditions that hold at every commit and at every open |
//! | `writer.rs` | the one writer: its lock, commits that no caller can interrupt |
//!
//! A change takes five steps:
//!
//! ```text
//! lock ── draft = copy ── edit ── plan: difference + predicates ── commit ── publish
//! └──── a caller may be cancelled: nothing has changed ─────────┘└─ on a task of its own ─┘
//! ```
//!
//! Memory and disk are never edited separately: the stored batch is derived from the difference
//! between the draft and the definitions in force. So is everything that runs for the definitions:
//! `shardlake-account` derives partitions, budgets and background work from the same [`Change`].

mod analytical;
mod analytical_folder;
mod change;
mod definitions;
mod ended;
mod error;
mod function;
mod log_hold;
mod predicates;
mod projection;
mod records;
mod secondary_index;
mod stored;
mod table;
mod writer;

pub use analytical::{
    ANALYTICAL_TABLES_MAX, ANALYTICAL_TABLES_OPEN_MAX, AnalyticalMode, AnalyticalRecord, AnalyticalSchema,
    AnalyticalSettings,
};
pub use analytical_folder::{folder_apart, folder_of};
pub use change::Change;
pub use definitions::Definitions;
pub use error::CatalogError;
pub use function::{
    FunctionAccess, FunctionBatching, FunctionDefinition, FunctionMode, FunctionOnError, FunctionRecord,
    FunctionRetry, FunctionSource, FunctionVersion,
};
pub use log_hold::{HoldBound, HoldState, Holder, LogHold};
pub use predicates::{broken, loose_ends};
pub use projection::{
    Checkpoint, MatchPair, PlaceRecord, ProjectionCounts, ProjectionRecord, ProjectionRule, ProjectionSource,
    ProjectionStart, ProjectionTarget, SetPair,
};
pub use records::{
    ContainerRecord, DroppedMark, EndedContainer, EndedForgotten, FORMER_RANGES_MAX, FormerRange,
    IndexGeneration, IndexRecord, Numbers, Placed, RangeRecord, RelocationKind, RelocationRecord,
};
pub use secondary_index::{IndexPhase, RefusedRecord, SecondaryIndexRecord, SecondaryIndexState};
pub use stored::{MEMBERSHIP, decode, encode, key, load, load_view, stamp_key};
pub use table::{Changed, Table};
pub use writer::{CatalogLock, Urgency, Writer};
