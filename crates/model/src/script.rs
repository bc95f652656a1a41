//! Server-side JavaScript as resources of a container: stored procedures, triggers, user-defined functions (wire.md §15).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Limits, Result, ScriptKind, validate_resource_id};

/// When a trigger runs, relative to the operation that names it.
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
    /// Only for triggers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerDefinition>,
    /// Only for triggers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spelling: Option<TriggerSpelling>,
}

/// The client's spelling of `trigger`, which is returned unchanged, since clients compare it with their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerSpelling {
    pub trigger_type: String,
    pub operation: String,
}

/// A script as a client defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptDefinition {
    pub kind: ScriptKind,
    pub id: String,
    pub body: String,
    /// Only for triggers.
    pub trigger: Option<TriggerDefinition>,
    pub spelling: Option<TriggerSpelling>,
}

impl ScriptKind {
    /// The name in messages for users.
    pub fn name(self) -> &'static str {
        match self {
            ScriptKind::Procedure => "stored procedure",
            ScriptKind::Trigger => "trigger",
            ScriptKind::Function => "user-defined function",
        }
    }

    /// The limit per container.
    pub fn count_max(self, limits: &Limits) -> usize {
        match self {
            ScriptKind::Procedure => limits.procedures_max,
            ScriptKind::Trigger => limits.triggers_max,
            ScriptKind::Function => limits.functions_max,
        }
    }
}

impl TriggerType {
    /// Ignores case.
    pub fn parse(text: &str) -> Option<TriggerType> {
        let known = [("Pre", TriggerType::Pre), ("Post", TriggerType::Post)];
        known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, kind)| kind)
    }
}

impl TriggerOperation {
    /// Ignores case.
    pub fn parse(text: &str) -> Option<TriggerOperation> {
        let known = [
            ("All", TriggerOperation::All),
            ("Create", TriggerOperation::Create),
            ("Replace", TriggerOperation::Replace),
            ("Delete", TriggerOperation::Delete),
            ("Update", TriggerOperation::Update),
            ("Upsert", TriggerOperation::Upsert),
        ];
        known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, operation)| operation)
    }
}

impl ScriptDefinition {
    /// Checks all rules except whether the text is a function.
    pub fn validate(&self, limits: &Limits) -> Result<()> {
        validate_resource_id(&self.id, limits)?;
        if self.body.trim().is_empty() {
            return Err(Error::bad_request(format!(
                "the {} '{}' has an empty body: send the text of a function",
                self.kind.name(),
                self.id
            )));
        }
        if self.body.len() > limits.script_body_bytes_max {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the body of {} '{}' has {} bytes: at most {} are allowed",
                    self.kind.name(),
                    self.id,
                    self.body.len(),
                    limits.script_body_bytes_max
                ),
            ));
        }
        assert_eq!(self.kind == ScriptKind::Trigger, self.trigger.is_some(), "triggers say when they run");
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_checked_before_anything_is_stored() {
        let limits = Limits { script_body_bytes_max: 20, ..Limits::default() };
        let definition = |id: &str, body: &str| ScriptDefinition {
            kind: ScriptKind::Function,
            id: id.into(),
            body: body.into(),
            trigger: None,
            spelling: None,
        };
        definition("a b", "function () {}").validate(&limits).expect("valid");
        for (id, body, kind) in [
            ("", "function () {}", ErrorKind::BadRequest),
            ("a/b", "function () {}", ErrorKind::BadRequest),
            ("a", " \n", ErrorKind::BadRequest),
            ("a", "function () { return 1 }", ErrorKind::TooLarge),
        ] {
            let error = definition(id, body).validate(&limits).expect_err(id);
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
