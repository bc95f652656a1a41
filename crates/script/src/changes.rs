//! Functions over the change feed: one run of one function over some changes of a container.
//!
//! The function reads by promises, and its reads are answered by the [`ChangesStore`] of the run. Its writes
//! are collected in the worker and returned with the outcome, in the order of its calls: the caller commits
//! all of them, or none.

use std::fmt;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use shardlake_model::{Error, Result};

use crate::Scripts;
use crate::settings::ScriptLimits;
use crate::store::StoreFailure;
use crate::turns::ScriptKey;

/// One run of a function over changes.
#[derive(Debug, Clone, Copy)]
pub struct ChangesInvocation<'a> {
    /// The function's id, for messages and for `context.function`.
    pub name: &'a str,
    pub version: u64,
    /// Counts from 1.
    pub attempt: u32,
    pub source: &'a str,
    /// JSON array of the changes: id, partitionKey (array), operation, current, previous, lsn, time.
    pub changes: &'a str,
    /// The containers that `context.container(name)` accepts.
    pub containers: &'a [FunctionContainer<'a>],
    pub limits: ScriptLimits,
}

/// A container that a function may use.
#[derive(Debug, Clone, Copy)]
pub struct FunctionContainer<'a> {
    pub name: &'a str,
    /// Paths of its partition key.
    pub key_paths: &'a [String],
    pub may_write: bool,
}

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
    /// The store returns at most this many rows.
    pub rows_max: u32,
}

/// The outcome of a successful run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesOutcome {
    /// In the order of the calls.
    pub writes: Vec<FunctionWriteOrder>,
    /// Changes that the function gave up: places in `changes`, and the reasons.
    pub letters: Vec<(u32, String)>,
    /// Lines of `console.log`.
    pub log: Vec<String>,
    /// Processor time of the worker.
    pub processor_ms: u64,
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

impl Scripts {
    /// Runs a function over changes. The kinds of errors are those of [`Scripts::run`]: `BadRequest` for an
    /// exception, `Forbidden` past a limit of time or memory; [`crate::is_worker_lost`] for a lost worker.
    pub async fn run_changes(
        &self,
        key: ScriptKey,
        invocation: &ChangesInvocation<'_>,
        store: &mut dyn ChangesStore,
    ) -> Result<ChangesOutcome> {
        let _ = (key, invocation, store);
        Err(Error::unsupported("functions over the change feed are not run by this build"))
    }
}
