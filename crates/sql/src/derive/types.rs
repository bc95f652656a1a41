//! Rows, dialects, errors and bounds of definitions of indexes.

use shardlake_document::{Body, DocumentError};

use crate::bind::ComputedProperties;
use crate::error::{Location, SqlError};
use crate::value::context::GeometryKind;

/// Members of a row, without `id` and `_id`.
pub const OUTPUTS_MAX: usize = 100;
/// Rows of one item.
pub const ROWS_MAX: usize = 100;

/// Member with the keys and the state of a group, for the server alone.
pub const GROUP_STATE: &str = "_state";
/// Outputs that would hide members of a group's row.
pub(super) const RESERVED_IN_GROUPS: [&str; 3] = ["id", "_id", GROUP_STATE];

/// The part of the language that definitions may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    Shardlake,
    /// Only the part that the reference documents.
    Strict,
}

/// The source of an index, as far as its rows depend on it.
#[derive(Debug, Clone, Default)]
pub struct DeriveSource<'s> {
    pub computed: Option<&'s ComputedProperties>,
    pub geometry: GeometryKind,
}

/// Reason why a text defines no index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place.map_or_else(String::new, |place| format!(" (characters {} to {})", place.start, place.end)))]
pub struct DeriveError {
    pub message: String,
    /// Part of the definition's text.
    pub place: Option<Location>,
    /// A later version of this server may accept it.
    pub is_not_yet: bool,
}

impl From<SqlError> for DeriveError {
    fn from(error: SqlError) -> Self {
        let is_not_yet = matches!(error, SqlError::Unsupported { .. });
        DeriveError { place: error.location(), message: error.to_string(), is_not_yet }
    }
}

impl From<DeriveError> for shardlake_model::Error {
    fn from(error: DeriveError) -> Self {
        let text = format!("the definition of the index: {error}; nothing was done");
        match error.is_not_yet {
            true => shardlake_model::Error::unsupported(text),
            false => shardlake_model::Error::bad_request(text),
        }
    }
}

/// Reason why an item has no rows although its definition has.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RowError {
    #[error("the item has more than {ROWS_MAX} rows in the index")]
    TooManyRows,
    #[error("{0}")]
    Evaluation(SqlError),
    #[error("{0}")]
    Document(DocumentError),
    #[error("the item has no id")]
    NoId,
}

/// A row of an index, without its system properties.
#[derive(Debug, Clone, PartialEq)]
pub struct DerivedRow {
    /// Place among the rows of its item, from 0.
    pub number: u32,
    pub id: String,
    /// With `id` and `_id`, in the form in which items are stored.
    pub body: Body,
}
