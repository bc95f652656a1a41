//! Records of global secondary indexes: source, query and state, by the container that holds the rows.
//!
//! How far an index has come is not here: that is its [`crate::Checkpoint`], under the same number, and
//! changes every second. This record changes when the state does.

use serde::{Deserialize, Serialize};
use shardlake_model::{ContainerRid, IndexSettings};

/// The index that a container is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondaryIndexRecord {
    /// Names the index in log entries, holds and checkpoints. Projections have numbers of the same series, and no
    /// number is given twice.
    pub number: u32,
    pub source: ContainerRid,
    /// Name of the source.
    pub source_id: String,
    /// The query whose rows the index holds.
    pub definition: String,
    pub settings: IndexSettings,
    pub state: SecondaryIndexState,
    /// Increases with every rebuild; a part of the stamps of rows.
    pub generation: u16,
    /// Seconds since the Unix epoch.
    pub created: u64,
}

/// Progress of an index, and whether the operator stopped it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondaryIndexState {
    pub phase: IndexPhase,
    /// A paused index resumes in its phase.
    #[serde(default)]
    pub is_paused: bool,
    /// Rows that could not be written.
    #[serde(default)]
    pub failed_rows: u64,
    /// The first of them, so that they are known after a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedRecord>,
    /// Reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An item, or a row, that could not be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRecord {
    /// Its key in hexadecimal.
    pub name: String,
    /// Partition key of the item, or of the row, as JSON.
    pub key: String,
    pub id: String,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexPhase {
    /// Recorded. Commits of the source may lack its old keys.
    #[default]
    Initializing,
    BuildingAfterCreate,
    BuildingAfterRestore,
    /// Follows the log.
    Active,
    /// Needs an operator.
    Failed,
}

impl SecondaryIndexState {
    /// Everything that `status` answers.
    pub const STATUSES: [&str; 7] = [
        "Initializing",
        "InitialBuildAfterCreate",
        "InitialBuildAfterRestore",
        "Active",
        "Incomplete",
        "Paused",
        "Failed",
    ];

    /// The wire's `status`.
    pub fn status(&self) -> &'static str {
        match self.phase {
            IndexPhase::Failed => "Failed",
            _ if self.is_paused => "Paused",
            IndexPhase::Initializing => "Initializing",
            IndexPhase::BuildingAfterCreate => "InitialBuildAfterCreate",
            IndexPhase::BuildingAfterRestore => "InitialBuildAfterRestore",
            IndexPhase::Active if self.failed_rows > 0 => "Incomplete",
            IndexPhase::Active => "Active",
        }
    }

    /// Whether the index may lack rows of items that were written long ago.
    pub fn is_incomplete(&self) -> bool {
        self.phase != IndexPhase::Active || self.failed_rows > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_stays() {
        let text = r#"{"number":3,"source":{"database":1,"number":2},"source_id":"customer","definition":"SELECT c.email FROM c","settings":{"reads":"eventual","expired":"delete","unique":false,"charge":"containers","deadLetters":"copyErrors"},"state":{"phase":"Active","is_paused":false,"failed_rows":0},"generation":1,"created":9}"#;
        let record: SecondaryIndexRecord = serde_json::from_str(text).expect("a stored record");
        assert_eq!(serde_json::to_string(&record).expect("plain data"), text);
        assert_eq!(record.state.status(), "Active");
    }

    #[test]
    fn each_state_has_its_status() {
        let state = |phase, is_paused, failed_rows| {
            let state = SecondaryIndexState { phase, is_paused, failed_rows, ..Default::default() };
            state.status()
        };
        assert_eq!(state(IndexPhase::Initializing, false, 0), "Initializing");
        assert_eq!(state(IndexPhase::BuildingAfterCreate, false, 0), "InitialBuildAfterCreate");
        assert_eq!(state(IndexPhase::BuildingAfterRestore, false, 2), "InitialBuildAfterRestore");
        assert_eq!(state(IndexPhase::Active, false, 1), "Incomplete");
        assert_eq!(state(IndexPhase::Active, true, 1), "Paused");
        assert_eq!(state(IndexPhase::Failed, true, 0), "Failed");
    }
}
