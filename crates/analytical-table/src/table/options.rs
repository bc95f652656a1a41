//! Settings of a table, and the parameters of its commits.

use std::sync::Arc;

use shardlake_stdx::Random;

use crate::log::{Place, Version};
use crate::schema::{SchemaLimits, SchemaMode};
use crate::store::TableStore;

/// Where a table's files lie.
#[derive(Debug, Clone)]
pub struct TableFolders {
    /// The table's own folder.
    pub store: Arc<dyn TableStore>,
    /// Always local: the key files of the table.
    pub keys: Arc<dyn TableStore>,
    pub random: Random,
}

/// Which of the logs in a table's folder is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// The log that readers see.
    Serving,
    /// The log of a generation that is being built.
    Building(u32),
}

impl Location {
    pub fn base(self) -> String {
        match self {
            Location::Serving => String::new(),
            Location::Building(generation) => format!("g{generation}/"),
        }
    }

    /// Folder of new files, relative to the log's paths.
    pub fn data(self, generation: u32) -> String {
        match self {
            Location::Serving => format!("g{generation}"),
            Location::Building(_) => String::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Rid of the container.
    pub container: String,
    pub history: String,
    pub writer: String,
    /// Key of the hashes in key files.
    pub secret: Vec<u8>,
    /// Of a new table; one that is opened keeps its own.
    pub mode: SchemaMode,
    pub limits: SchemaLimits,
    /// JSON pointers of properties that are not copied.
    pub exclude: Vec<String>,
    /// Column paths with statistics in every file: the partition key, and `cluster_by`.
    pub stats_keys: Vec<Vec<String>>,
    /// Column paths by which compaction sorts, before `_ts`.
    pub cluster_by: Vec<Vec<String>>,
    pub retention_hours: u32,
    /// Commits from one checkpoint to the next.
    pub checkpoint_every: u64,
    pub sizes: Sizes,
}

/// Bounds of files and of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of buffered rows in memory, and rows, at which a round writes a file.
    pub file_bytes: usize,
    pub file_rows: usize,
    pub row_group_rows: usize,
    /// Files of a widened column that are rewritten within a round.
    pub widen_bytes: u64,
    /// Compaction: bytes below which a file is small, and the number of such files.
    pub small_bytes: u64,
    pub small_files: usize,
    /// Bytes and rows of a compacted file.
    pub compacted_bytes: u64,
    pub compacted_rows: u64,
    /// Bytes in memory of the rows of one compaction.
    pub compacted_memory: u64,
    /// Files with at least these rows are compacted when a fifth of them is deleted.
    pub deleted_rows: u64,
    /// Fences and filters of key files in memory.
    pub index_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            file_bytes: 64 << 20,
            file_rows: 256_000,
            row_group_rows: 122_880,
            widen_bytes: 256 << 20,
            small_bytes: 32 << 20,
            small_files: 16,
            compacted_bytes: 128 << 20,
            compacted_rows: 1_000_000,
            compacted_memory: 256 << 20,
            deleted_rows: 10_000,
            index_bytes: 64 << 20,
        }
    }
}

/// Position, state and time that a commit records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The position of the whole table after the commit.
    pub places: Vec<Place>,
    pub state: String,
    /// Milliseconds since 1970.
    pub time: i64,
}

impl Commit {
    /// For commits that leave the position and the state as they are.
    pub fn same(version: &Version, time: i64) -> Commit {
        Commit { places: version.info.places.clone(), state: version.info.state.clone(), time }
    }
}
