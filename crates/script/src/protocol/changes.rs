//! Messages of runs over changes.

use serde::{Deserialize, Serialize};

use crate::function_store::{FunctionQuery, FunctionRead, FunctionWriteOrder};
use crate::settings::ScriptLimits;

/// [`crate::changes::ChangesInvocation`] with its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangesOrder {
    pub name: String,
    pub version: u64,
    pub attempt: u32,
    pub source: String,
    pub changes: String,
    pub containers: Vec<OrderedContainer>,
    pub limits: ScriptLimits,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderedContainer {
    pub name: String,
    pub key_paths: Vec<String>,
    pub may_write: bool,
}

/// A read that a function waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FunctionAsk {
    Read(FunctionRead),
    Query(FunctionQuery),
}

/// The results of a function that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangesDone {
    pub writes: Vec<FunctionWriteOrder>,
    pub letters: Vec<(u32, String)>,
}
