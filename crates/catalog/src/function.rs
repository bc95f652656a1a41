//! Records of functions: code that runs over the changes of a container.
//!
//! ```json
//! { "source": { "database": "webstore", "container": "productMeta", "filter": { "/type": "category" } },
//!   "access": { "product": "readWrite" },
//!   "code": "async function (changes, context) { … }" }
//! ```
//! The progress of a function is its [`crate::Checkpoint`], under its number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shardlake_model::ContainerRid;

use crate::ProjectionStart;

/// A function as users write it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionDefinition {
    pub id: String,
    pub source: FunctionSource,
    /// The containers that the function may use, as `container` of the source's database or as `database/container`.
    #[serde(default)]
    pub access: BTreeMap<String, FunctionAccess>,
    #[serde(default)]
    pub mode: FunctionMode,
    /// Whether deletions are given to it.
    #[serde(default = "yes")]
    pub deletes: bool,
    #[serde(default)]
    pub start: ProjectionStart,
    #[serde(default)]
    pub batch: FunctionBatching,
    #[serde(default = "one")]
    pub lanes: u32,
    #[serde(default = "five")]
    pub timeout_seconds: u32,
    /// Bound on everything that it costs; no bound if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_units_per_second: Option<u32>,
    #[serde(default)]
    pub retry: FunctionRetry,
    #[serde(default)]
    pub on_error: FunctionOnError,
    /// A container of the source's database, created when it is first needed.
    #[serde(default = "copy_errors")]
    pub dead_letters: String,
    /// Accepts that the function may feed itself through other functions, indexes or projections.
    #[serde(default)]
    pub allow_circle: bool,
    pub code: String,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn five() -> u32 {
    5
}

fn copy_errors() -> String {
    "copyErrors".into()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionSource {
    pub database: String,
    pub container: String,
    /// By path: the value, or the list of values, that an item must have there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filter: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FunctionAccess {
    Read,
    ReadWrite,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FunctionMode {
    /// An item that changed several times is given once, as it is now.
    #[default]
    Latest,
    AllVersions,
}

/// Changes that are given to one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FunctionBatching {
    pub changes: u32,
    pub bytes: u32,
    pub wait_ms: u32,
}

impl Default for FunctionBatching {
    fn default() -> Self {
        FunctionBatching { changes: 100, bytes: 4 << 20, wait_ms: 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FunctionRetry {
    pub attempts: u32,
    pub first_ms: u32,
    pub max_ms: u32,
}

impl Default for FunctionRetry {
    fn default() -> Self {
        FunctionRetry { attempts: 5, first_ms: 100, max_ms: 30_000 }
    }
}

/// Consequence of a single change that fails for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FunctionOnError {
    /// It becomes a dead letter, and the function continues.
    #[default]
    DeadLetter,
    Pause,
    Retry,
}

/// A function as the catalog stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionRecord {
    /// Names the function in log entries, holds, progress rows and checkpoints. A function that begins anew gets another
    /// number, so that progress rows of its earlier life do not count.
    pub number: u32,
    /// With the code of the current version.
    pub definition: FunctionDefinition,
    pub source: ContainerRid,
    /// The containers of `access`, in its order: others of the same names are others.
    pub access: Vec<ContainerRid>,
    /// Increases with each code.
    pub version: u64,
    /// Earlier codes, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<FunctionVersion>,
    /// Its numbers before it began anew. Commits with these origins are its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_numbers: Vec<u32>,
    #[serde(default)]
    pub is_paused: bool,
    /// Why the server paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// When the current version was put.
    pub changed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionVersion {
    pub version: u64,
    /// Seconds since the Unix epoch.
    pub changed: u64,
    pub code: String,
}

impl FunctionRecord {
    /// Whether a commit is the function's own.
    pub fn is_own(&self, origin: u32) -> bool {
        origin == self.number || self.former_numbers.contains(&origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_stays() {
        let text = r#"{"number":3,"definition":{"id":"names","source":{"database":"d","container":"meta","filter":{"/type":"category"}},"access":{"product":"readWrite"},"mode":"latest","deletes":true,"start":"beginning","batch":{"changes":100,"bytes":4194304,"waitMs":0},"lanes":1,"timeoutSeconds":5,"requestUnitsPerSecond":400,"retry":{"attempts":5,"firstMs":100,"maxMs":30000},"onError":"deadLetter","deadLetters":"copyErrors","allowCircle":false,"code":"async function (changes, context) { }"},"source":{"database":1,"number":2},"access":[{"database":1,"number":3}],"version":2,"earlier":[{"version":1,"changed":8,"code":"function () { }"}],"former_numbers":[1],"is_paused":false,"created":8,"changed":9}"#;
        let record: FunctionRecord = serde_json::from_str(text).expect("a stored record");
        assert_eq!(serde_json::to_string(&record).expect("plain data"), text);
        assert!(record.is_own(1) && record.is_own(3) && !record.is_own(2) && !record.is_own(0));
    }

    #[test]
    fn members_that_are_left_out_have_their_documented_values() {
        let text = r#"{"id":"f","source":{"database":"d","container":"c"},"code":"x"}"#;
        let definition: FunctionDefinition = serde_json::from_str(text).expect("complete");
        assert_eq!(
            (definition.mode, definition.deletes, definition.lanes, definition.timeout_seconds),
            (FunctionMode::Latest, true, 1, 5)
        );
        assert_eq!(definition.batch, FunctionBatching { changes: 100, bytes: 4_194_304, wait_ms: 0 });
        assert_eq!(definition.retry, FunctionRetry { attempts: 5, first_ms: 100, max_ms: 30_000 });
        assert_eq!(
            (definition.on_error, &*definition.dead_letters),
            (FunctionOnError::DeadLetter, "copyErrors")
        );
    }
}
