//! The schema of a table: its mode, its limits, the properties that are never copied, and its columns.

use super::column_type::Fields;
use super::exclude::Exclusions;

/// System columns before the properties.
pub const SYSTEM_COLUMNS_BEFORE: [&str; 4] = ["_rid", "_ts", "id", "_etag"];
/// System columns after the properties.
pub const SYSTEM_COLUMNS_AFTER: [&str; 2] = ["_lsn", "_rest"];

/// The way in which values become columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaMode {
    /// A path has one type; values of other types are in `_rest`.
    WellDefined,
    /// A path has one member for each type that occurred.
    FullFidelity {
        /// Collections of the MongoDB API have members for the kinds of BSON.
        is_mongo: bool,
    },
}

/// Limits of a schema; values beyond them are in `_rest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaLimits {
    /// Properties over all levels, objects and arrays counted.
    pub properties: usize,
    /// Levels of typed columns, objects and arrays counted.
    pub levels: usize,
    /// Bytes of a column's name.
    pub name_bytes: usize,
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSchema {
    pub(super) mode: SchemaMode,
    pub(super) limits: SchemaLimits,
    pub(super) exclude: Exclusions,
    /// Without the system columns.
    pub(super) fields: Fields,
    /// Properties that count for the limit.
    pub(super) property_count: usize,
}

impl Default for SchemaLimits {
    fn default() -> SchemaLimits {
        SchemaLimits { properties: 1000, levels: 32, name_bytes: 255 }
    }
}

impl SchemaMode {
    pub fn is_full_fidelity(self) -> bool {
        matches!(self, SchemaMode::FullFidelity { .. })
    }
}

impl SchemaLimits {
    /// The greatest depth of a JSON value that is a column: a property of the root has depth 1. In full
    /// fidelity a value takes two levels, itself and its members.
    pub fn depth_max(&self, mode: SchemaMode) -> usize {
        if mode.is_full_fidelity() { self.levels / 2 } else { self.levels }
    }
}

impl TableSchema {
    /// A schema without properties. `exclude` holds paths such as `/customer/password`.
    pub fn new<S: AsRef<str>>(mode: SchemaMode, limits: SchemaLimits, exclude: &[S]) -> TableSchema {
        let exclude = Exclusions::new(exclude);
        TableSchema { mode, limits, exclude, fields: Fields::default(), property_count: 0 }
    }

    pub fn mode(&self) -> SchemaMode {
        self.mode
    }

    pub fn limits(&self) -> SchemaLimits {
        self.limits
    }

    pub fn exclusions(&self) -> &Exclusions {
        &self.exclude
    }

    /// The columns of properties at the root level.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Properties over all levels; at most [`SchemaLimits::properties`], unless that limit was lowered.
    pub fn property_count(&self) -> usize {
        self.property_count
    }
}
