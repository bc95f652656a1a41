//! Functions over the change feed: one run of one function over some changes of a container.
//!
//! The function reads by promises, and its reads are answered by the [`ChangesStore`] of the run. Its writes
//! are collected in the worker and returned with the outcome, in the order of its calls: the caller commits
//! all of them, or none.

mod run;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings::ScriptLimits;

pub use crate::function_store::{
    ChangesStore, FUNCTION_WRITE_BYTES_MAX, FUNCTION_WRITES_MAX, FunctionQuery, FunctionRead,
    FunctionWriteKind, FunctionWriteOrder, QUERY_BYTES_MAX, QUERY_ROWS_MAX, patch_operations,
};

/// The longest time that a function may have.
pub const FUNCTION_TIME_MAX: Duration = Duration::from_secs(60);
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
