//! Server-side JavaScript as resources of a container: stored procedures, triggers, user-defined functions (wire.md §15).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScriptKind {
    Procedure,
    Trigger,
    Function,
}

/// When a trigger runs, beside the operation that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerType {
    Pre,
    Post,
}

/// Which operations may name a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerOperation {
    All,
    Create,
    Replace,
    Delete,
    /// Replace and upsert.
    Update,
    Upsert,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerDefinition {
    pub trigger_type: TriggerType,
    pub operation: TriggerOperation,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    pub kind: ScriptKind,
    pub id: String,
    /// Unique among the container's scripts of all kinds; the rid's suffix.
    pub number: u64,
    pub etag: [u8; 16],
    /// Unix seconds.
    pub timestamp: u64,
    /// The text of one JavaScript function.
    pub body: String,
    /// Of triggers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerDefinition>,
}

/// All scripts of a container, by kind and id.
#[derive(Debug, Clone, Default)]
pub struct ContainerScripts(pub BTreeMap<(ScriptKind, String), Arc<Script>>);

impl ContainerScripts {
    pub fn get(&self, kind: ScriptKind, id: &str) -> Option<&Arc<Script>> {
        self.0.get(&(kind, id.to_owned()))
    }

    pub fn of_kind(&self, kind: ScriptKind) -> impl Iterator<Item = &Arc<Script>> {
        self.0.values().filter(move |script| script.kind == kind)
    }
}
