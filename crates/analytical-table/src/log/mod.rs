//! Log of a table, whatever its format: versions, files, vectors, and the position in the change
//! log of the container.

mod snapshot;
mod span;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use snapshot::{Tombstone, Version};
pub use span::{LsnRange, Place, Span};

use crate::error::TableError;
use crate::schema::SchemaMode;

/// Format of a table's log. A second one (Iceberg) would describe the same files.
pub trait TableLog: std::fmt::Debug + Send + Sync {
    /// The newest version; `None` where no table is.
    fn newest(&self) -> Result<Option<Version>, TableError>;

    /// A version of the retained history.
    fn at(&self, version: u64) -> Result<Version, TableError>;

    /// The versions that can be read now, with their commit times in milliseconds, oldest first.
    fn history(&self) -> Result<Vec<(u64, i64)>, TableError>;

    /// Writes the version after `from` (the first one after `None`) in one step.
    fn commit(&self, from: Option<&Version>, change: &Change) -> Result<u64, TableError>;

    /// Shortens the log that a reader of this version replays.
    fn checkpoint(&self, version: &Version) -> Result<(), TableError>;

    /// Log files that no version committed since `time` needs.
    fn obsolete(&self, newest: &Version, time: i64) -> Result<Vec<String>, TableError>;
}

/// One commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub info: CommitInfo,
    /// Milliseconds since 1970.
    pub time: i64,
    /// Given when the schema or the generation changes, and by the first commit.
    pub metadata: Option<Metadata>,
    pub removed: Vec<Tombstone>,
    pub added: Vec<DataFile>,
    /// False where the same rows lie in other files afterwards.
    pub changes_rows: bool,
}

/// The part of a commit that belongs to Shardlake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitInfo {
    pub format: u32,
    pub container: String,
    pub generation: u32,
    pub history: String,
    pub writer: String,
    /// Random name of this commit: after an error the writer recognises its own commit by it.
    pub commit: String,
    pub reason: Reason,
    pub state: String,
    pub places: Vec<Place>,
}

/// Format number in [`CommitInfo`].
pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    Create,
    Round,
    Compaction,
    Retention,
    Widening,
    Swap,
    Reconcile,
    State,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Reason::Create => "create",
            Reason::Round => "round",
            Reason::Compaction => "compaction",
            Reason::Retention => "retention",
            Reason::Widening => "widening",
            Reason::Swap => "swap",
            Reason::Reconcile => "reconcile",
            Reason::State => "state",
        }
    }
}

/// Name and columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub id: String,
    /// The way in which documents became columns. Only another generation has another one.
    pub mode: SchemaMode,
    /// The columns as Delta's schema text.
    pub schema: String,
    /// Milliseconds since 1970.
    pub created: i64,
    /// How long removed files and old versions stay, in hours.
    pub retention_hours: u32,
}

/// A Parquet file with the rows that a version shows.
#[derive(Debug, Clone, PartialEq)]
pub struct DataFile {
    /// Relative to the table's folder.
    pub path: String,
    pub size: u64,
    /// Milliseconds since 1970.
    pub modified: i64,
    pub stats: FileStats,
    pub span: Span,
    pub lsn: LsnRange,
    /// CRC-32 of the whole file.
    pub checksum: Option<u32>,
    /// Bytes of its rows in memory when they were written.
    pub memory: u64,
    pub vector: Option<VectorRef>,
}

impl DataFile {
    pub fn rows(&self) -> u64 {
        self.stats.num_records
    }

    pub fn deleted_rows(&self) -> u64 {
        self.vector.as_ref().map_or(0, |vector| vector.cardinality)
    }

    pub fn live_rows(&self) -> u64 {
        self.rows().saturating_sub(self.deleted_rows())
    }

    /// Bounds of `_ts`, in seconds.
    pub fn times(&self) -> Option<(i64, i64)> {
        let bound = |of: &Map<String, Value>| of.get("_ts").and_then(Value::as_i64);
        Some((bound(&self.stats.min_values)?, bound(&self.stats.max_values)?))
    }
}

/// Statistics of a file in the form that Delta gives them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStats {
    pub num_records: u64,
    /// False with a vector: the bounds may be those of deleted rows.
    #[serde(default = "is_tight")]
    pub tight_bounds: bool,
    #[serde(default)]
    pub min_values: Map<String, Value>,
    #[serde(default)]
    pub max_values: Map<String, Value>,
    #[serde(default)]
    pub null_count: Map<String, Value>,
}

fn is_tight() -> bool {
    true
}

/// Place of a deletion vector: the numbers of the deleted rows of one data file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VectorRef {
    /// Relative to the table's folder.
    pub path: String,
    pub offset: u32,
    /// Bytes of the bitmap, without its length and checksum.
    pub size: u32,
    pub cardinality: u64,
}
