//! The data calls of a function over changes: its reads, as messages, and the writes that it leaves.

mod patch;

use std::fmt;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::store::StoreFailure;

pub use patch::patch_operations;

/// Writes of one run.
pub const FUNCTION_WRITES_MAX: usize = 1_000;
/// Bytes of the writes of one run, as JSON text.
pub const FUNCTION_WRITE_BYTES_MAX: usize = 4 << 20;
/// Rows of one query.
pub const QUERY_ROWS_MAX: u32 = 1_000;
/// Bytes of the rows of one query, as JSON text.
pub const QUERY_BYTES_MAX: usize = 4 << 20;

/// The reads of a function. Its writes never reach the store.
pub trait ChangesStore: Send {
    /// The run has its worker: its time begins.
    fn begin(&mut self) {}

    /// The item as JSON text, or `None` where there is no such item.
    fn read<'a>(&'a mut self, read: FunctionRead) -> BoxFuture<'a, Result<Option<String>, StoreFailure>>;

    /// The rows as a JSON array.
    fn query<'a>(&'a mut self, query: FunctionQuery) -> BoxFuture<'a, Result<String, StoreFailure>>;
}

/// A point read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRead {
    pub container: String,
    pub id: String,
    /// JSON array.
    pub partition_key: String,
}

/// A query of one partition key, or of a whole container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionQuery {
    pub container: String,
    pub text: String,
    /// JSON object: values by name.
    pub parameters: String,
    /// JSON array.
    pub partition_key: Option<String>,
    /// The store returns at most this many rows. It is one more than [`QUERY_ROWS_MAX`] where the function gave
    /// no maximum: a query with more rows is then refused, and not cut.
    pub rows_max: u32,
}

/// A write that a function asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionWriteOrder {
    /// As in [`FunctionContainer::name`].
    pub container: String,
    pub kind: FunctionWriteKind,
    /// The etag that the item must have.
    pub if_match: Option<String>,
}

/// Items, partition keys (arrays) and operations are JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FunctionWriteKind {
    Create { item: String },
    Upsert { item: String },
    Replace { item: String },
    Patch { id: String, partition_key: String, operations: String },
    Delete { id: String, partition_key: String },
}

impl fmt::Debug for dyn ChangesStore + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store of a function")
    }
}

impl FunctionWriteKind {
    /// The size that counts for [`FUNCTION_WRITE_BYTES_MAX`].
    pub(crate) fn bytes(&self) -> usize {
        match self {
            FunctionWriteKind::Create { item }
            | FunctionWriteKind::Upsert { item }
            | FunctionWriteKind::Replace { item } => item.len(),
            FunctionWriteKind::Patch { id, partition_key, operations } => {
                id.len() + partition_key.len() + operations.len()
            }
            FunctionWriteKind::Delete { id, partition_key } => id.len() + partition_key.len(),
        }
    }
}
