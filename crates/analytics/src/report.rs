//! The state of a table, for operators and metrics.

use std::collections::BTreeMap;

use serde::Serialize;
use shardlake_catalog::AnalyticalSettings;

/// Activity of a table. Readers of its files see the newest version in every state but `Building`, where there is none yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableState {
    /// The first copy is under way.
    Building {
        percent: u8,
    },
    Following,
    /// Something stands in the way and is waited out.
    Waiting(String),
    Paused,
    /// No server with an analytical store follows the container.
    Stopped,
    /// The policy was set to 0.
    Closed,
    /// A next generation is under way; the table shows the one before.
    Rebuilding {
        percent: u8,
    },
    /// An operator has to act.
    Failed(String),
}

impl TableState {
    /// All names, for metrics.
    pub const NAMES: [&'static str; 8] =
        ["building", "following", "waiting", "paused", "stopped", "closed", "rebuilding", "failed"];

    pub fn name(&self) -> &'static str {
        match self {
            TableState::Building { .. } => "building",
            TableState::Following => "following",
            TableState::Waiting(_) => "waiting",
            TableState::Paused => "paused",
            TableState::Stopped => "stopped",
            TableState::Closed => "closed",
            TableState::Rebuilding { .. } => "rebuilding",
            TableState::Failed(_) => "failed",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            TableState::Waiting(reason) | TableState::Failed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Hundredths of the container that a copy under way has read.
    pub fn percent(&self) -> Option<u8> {
        match self {
            TableState::Building { percent } | TableState::Rebuilding { percent } => Some(*percent),
            _ => None,
        }
    }
}

/// A table as operators see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableReport {
    pub database: String,
    pub container: String,
    #[serde(serialize_with = "as_name")]
    pub state: TableState,
    /// `analyticalStorageTtl` of the container.
    pub ttl: i64,
    pub settings: AnalyticalSettings,
    /// Folder or address of the table, for readers.
    pub location: Option<String>,
    pub lag: LagReport,
    /// Everything that was acknowledged before this time, in seconds since the Unix epoch, is in the table.
    pub complete_to: Option<u64>,
    pub places: Vec<PlaceReport>,
    pub figures: TableFigures,
    pub counts: TableCounts,
    /// The last orders that were carried out.
    pub orders: Vec<OrderReport>,
    pub last_error: Option<ErrorReport>,
}

/// An order of an operator, carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderReport {
    pub number: u64,
    /// `compact` or `verify`.
    pub order: &'static str,
    /// Its result, for people.
    pub outcome: String,
    /// Whether it was carried out, and found no difference.
    pub is_right: bool,
    /// Seconds since the Unix epoch.
    pub time: u64,
}

fn as_name<S: serde::Serializer>(state: &TableState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name())
}

/// Commits that are not in the table yet, and for how long the oldest of them has been there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LagReport {
    pub changes: u64,
    pub seconds: u64,
}

/// A part of the hash space, and the last LSN that the table has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceReport {
    pub min_inclusive: String,
    pub max_exclusive: String,
    pub lsn: u64,
}

/// The newest version of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableFigures {
    pub version: Option<u64>,
    pub generation: u32,
    pub rows: u64,
    /// Rows in data files that a deletion vector hides.
    pub rows_deleted: u64,
    pub files: u64,
    /// Of data files.
    pub size_bytes: u64,
    /// The items as JSON text.
    pub json_bytes: u64,
    pub columns: Vec<ColumnReport>,
    /// Columns that wait to become doubles.
    pub pending_widenings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ColumnReport {
    pub name: String,
    /// As SQL writes it, such as `struct<city string>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the property where the column's differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
}

/// Work of a follower since the server started.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableCounts {
    /// By reason.
    pub commits: BTreeMap<String, u64>,
    pub copied_items: u64,
    pub compacted_bytes: u64,
    /// Items that ran out before they were copied: the table's history lacks them.
    pub lost_history: u64,
    /// Values in `_rest`, by the reason why no column has them.
    pub rest_values: BTreeMap<String, u64>,
    /// The first paths of such values.
    pub rest_paths: Vec<String>,
    pub cpu_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    pub message: String,
    /// Seconds since the Unix epoch.
    pub time: u64,
}
