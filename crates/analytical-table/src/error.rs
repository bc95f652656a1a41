//! Errors of tables.

use std::fmt;

use crate::store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableError {
    /// The disk or store failed. A later attempt may succeed.
    Store(StoreError),
    /// A file of the table is missing or does not hold its content.
    Damaged { file: String, reason: String },
    /// A version was written by another program. The table must not be written again.
    AnotherWriter { version: u64 },
    /// The row of an ended version is in no file: a broken invariant.
    RowNotFound { ordinal: u64, lsn: u64 },
    /// There is no table in the folder.
    Missing,
    /// There is a table in the folder already.
    Exists,
    /// The version is older than the retained history, or newer than the table.
    VersionGone { version: u64 },
    /// It is unknown whether the last commit took place: open the table again.
    Unsure,
    /// The job was stopped between two of its pieces.
    Stopped,
}

impl TableError {
    pub fn damaged(file: &str, reason: impl fmt::Display) -> TableError {
        TableError::Damaged { file: file.to_owned(), reason: reason.to_string() }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Store(error) => write!(f, "the store of the table failed: {error}"),
            TableError::Damaged { file, reason } => write!(f, "damaged {file}: {reason}"),
            TableError::AnotherWriter { version } => {
                write!(f, "another writer: version {version} of the table is not ours; rebuild the table")
            }
            TableError::RowNotFound { ordinal, lsn } => {
                write!(f, "the row of item {ordinal} at LSN {lsn} is in no file of the table")
            }
            TableError::Missing => f.write_str("there is no table in the folder"),
            TableError::Exists => f.write_str("there is a table in the folder already"),
            TableError::VersionGone { version } => {
                write!(f, "version {version} of the table is outside of the retained history")
            }
            TableError::Unsure => {
                f.write_str("it is unknown whether the last commit took place; open the table again")
            }
            TableError::Stopped => f.write_str("the job was stopped"),
        }
    }
}

impl std::error::Error for TableError {}

impl From<StoreError> for TableError {
    fn from(error: StoreError) -> TableError {
        TableError::Store(error)
    }
}
