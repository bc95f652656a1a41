//! Records of projections: the rule, and its progress.
//!
//! They are two records, because the second is written again and again. Both are deleted with the
//! database of the source.
//!
//! ```json
//! { "id": "category-names",
//!   "source": { "database": "store", "container": "productMeta", "filter": { "/type": "category" } },
//!   "target": { "database": "store", "container": "product" },
//!   "match": [ { "source": "/id", "target": "/categoryId" } ],
//!   "set": [ { "from": "/name", "to": "/categoryName" } ],
//!   "deadLetters": "projectionErrors", "start": "beginning", "watchTarget": true }
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shardlake_model::ContainerRid;
use shardlake_routing::{KeyRange, RangeError};

/// A rule as users write it: which copies follow which values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectionRule {
    pub id: String,
    pub source: ProjectionSource,
    pub target: ProjectionTarget,
    #[serde(rename = "match")]
    pub matches: Vec<MatchPair>,
    pub set: Vec<SetPair>,
    /// A container of the target's database, created when it is first needed.
    #[serde(default = "default_dead_letters")]
    pub dead_letters: String,
    #[serde(default)]
    pub start: ProjectionStart,
    /// Also corrects target items that are written with copies that are outdated at that time.
    #[serde(default = "yes")]
    pub watch_target: bool,
}

fn default_dead_letters() -> String {
    "projectionErrors".into()
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectionSource {
    pub database: String,
    pub container: String,
    /// By path: the value, or the list of values, that an item must have there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub filter: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectionTarget {
    pub database: String,
    pub container: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchPair {
    pub source: String,
    pub target: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPair {
    pub from: String,
    pub to: String,
}

/// Start of a new projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProjectionStart {
    /// Every item there is.
    #[default]
    Beginning,
    /// The projection looks at no existing items and waits for the next change.
    Now,
}

/// A rule as the catalog stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProjectionRecord {
    /// Names the projection in keys. A rule that replaces another has a number of its own.
    pub number: u32,
    pub rule: ProjectionRule,
    /// The containers at that time: others of the same names have other changes.
    pub source: ContainerRid,
    pub target: ContainerRid,
    pub is_paused: bool,
    /// Seconds since the Unix epoch.
    pub created: u64,
}

/// How far a projection has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub source: Vec<PlaceRecord>,
    /// Empty where the target is not watched.
    #[serde(default)]
    pub target: Vec<PlaceRecord>,
    #[serde(default)]
    pub counts: ProjectionCounts,
}

/// A part of the hash space, in hexadecimal, and the last LSN whose copies are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    pub min: String,
    pub max: String,
    pub after: u64,
}

impl PlaceRecord {
    pub fn new(span: &KeyRange, after: u64) -> PlaceRecord {
        let (min, max) = span.to_hex();
        PlaceRecord { min, max, after }
    }

    pub fn span(&self) -> Result<KeyRange, RangeError> {
        KeyRange::from_hex(&self.min, &self.max)
    }
}

/// Work of a projection since it was created. Work that is repeated after a crash may be counted again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionCounts {
    /// Changed items looked at.
    pub changes: u64,
    /// Target items written.
    pub applied: u64,
    /// Target items that were right already.
    pub unchanged: u64,
    pub dead_letters: u64,
}
