//! Names of variables while an expression is parsed.

use super::env::{CURRENT, ROOT};
use crate::error::{Result, error, fail};
use serde::{Deserialize, Serialize};
use shardlake_collation::{Collation, Rules};

/// The variables that an expression may name, each with the slot of its value, and the collation by which it compares strings.
/// All that is parsed in the scope carries its collation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "EncodedScope", try_from = "EncodedScope")]
pub struct Scope {
    names: Vec<(String, usize)>,
    next: usize,
    collation: Collation,
    /// Whether `$$DESCEND`, `$$PRUNE` and `$$KEEP` have a meaning.
    has_levels: bool,
}

impl Scope {
    /// A scope with the variables of the system only.
    pub fn new() -> Scope {
        Scope::with_collation(Collation::simple())
    }

    /// A scope with the variables of the system only, under a collation.
    pub fn with_collation(collation: Collation) -> Scope {
        let names = vec![("ROOT".into(), ROOT), ("CURRENT".into(), CURRENT)];
        Scope { names, next: CURRENT + 1, collation, has_levels: false }
    }

    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The same variables under another collation.
    pub fn comparing_by(&self, collation: Collation) -> Scope {
        Scope { collation, ..self.clone() }
    }

    /// The scope of `$redact`.
    pub(crate) fn with_levels(&self) -> Scope {
        Scope { has_levels: true, ..self.clone() }
    }

    pub(crate) fn has_levels(&self) -> bool {
        self.has_levels
    }

    /// Adds a variable, which hides others of its name; answers its slot.
    pub(crate) fn bind(&mut self, name: &str) -> usize {
        let slot = self.next;
        self.next += 1;
        self.names.push((name.to_owned(), slot));
        slot
    }

    pub(crate) fn slot(&self, name: &str) -> Result<usize> {
        let found = self.names.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, slot)| *slot).ok_or_else(|| error!(17276, "Use of undefined variable: {name}"))
    }

    pub(crate) fn current(&self) -> usize {
        self.slot("CURRENT").unwrap_or(CURRENT)
    }
}

/// A scope of a statement in bytes: its variables in the order of their slots, and the rules of its collation.
#[derive(Serialize, Deserialize)]
struct EncodedScope {
    variables: Vec<String>,
    collation: Option<String>,
}

impl From<Scope> for EncodedScope {
    fn from(scope: Scope) -> EncodedScope {
        debug_assert!(!scope.has_levels, "statements have no levels of a document");
        let collation = scope.collation.rules().map(Rules::text);
        let variables = scope.names.into_iter().filter(|(_, slot)| *slot > CURRENT);
        EncodedScope { variables: variables.map(|(name, _)| name).collect(), collation }
    }
}

impl TryFrom<EncodedScope> for Scope {
    type Error = String;

    fn try_from(encoded: EncodedScope) -> Result<Scope, String> {
        let collation = match encoded.collation {
            None => Collation::simple(),
            Some(text) => {
                let rules =
                    Rules::parse(&text).ok_or_else(|| format!("'{text}' are no rules of a collation"))?;
                Collation::new(rules).map_err(|unsupported| unsupported.0)?
            }
        };
        let mut scope = Scope::with_collation(collation);
        for name in &encoded.variables {
            scope.bind(name);
        }
        Ok(scope)
    }
}

/// Checks the name of a variable that a statement binds: letters, digits and underscores, a small letter first.
pub(crate) fn check_variable_name(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    let Some(first) = name.chars().next() else {
        fail!(9, "empty variable names are not allowed");
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        fail!(9, "'{name}' starts with an invalid character for a user variable name");
    }
    if let Some(wrong) = name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_') {
        fail!(9, "'{name}' contains an invalid character for a variable name: '{wrong}'");
    }
    Ok(())
}

/// Checks the name of a variable that a statement reads.
pub(crate) fn check_variable_use(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        fail!(9, "empty variable names are not allowed");
    };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        fail!(9, "'{name}' starts with an invalid character for a variable name");
    }
    if let Some(wrong) = name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_') {
        fail!(9, "'{name}' contains an invalid character for a variable name: '{wrong}'");
    }
    Ok(())
}
