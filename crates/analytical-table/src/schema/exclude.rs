//! Paths that are never copied to a table.
//!
//! A path is names after slashes, `/customer/password`; `~1` and `~0` in a name are `/` and `~` as in a JSON
//! Pointer. Names are compared as columns are. A path leads through the elements of arrays, with or without
//! the step `[]`.

use std::collections::BTreeMap;

use shardlake_document::{RawDocument, RawValue, Value};

use super::names::lower_case;

/// Excluded members of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exclusions {
    members: BTreeMap<String, Exclusions>,
    /// The value at this path is excluded as a whole.
    is_whole: bool,
}

/// The effect of exclusions on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excluded<'e> {
    No,
    /// Members inside of the value are.
    Inside(&'e Exclusions),
    Yes,
}

impl Exclusions {
    pub fn new<S: AsRef<str>>(paths: &[S]) -> Exclusions {
        let mut root = Exclusions::default();
        for path in paths {
            let mut node = &mut root;
            for step in path.as_ref().split('/').skip(1).filter(|step| *step != "[]") {
                let name = step.replace("~1", "/").replace("~0", "~");
                node = node.members.entry(lower_case(&name).into_owned()).or_default();
            }
            node.is_whole = true;
        }
        // The path of the whole document excludes nothing.
        root.is_whole = false;
        root
    }

    /// `None` if nothing is excluded.
    pub fn some(&self) -> Option<&Exclusions> {
        (!self.members.is_empty()).then_some(self)
    }

    pub fn member(&self, name: &str) -> Excluded<'_> {
        match self.members.get(&*lower_case(name)) {
            None => Excluded::No,
            Some(inner) if inner.is_whole => Excluded::Yes,
            Some(inner) => Excluded::Inside(inner),
        }
    }

    /// A copy of a value without its excluded members.
    pub fn without(&self, value: RawValue<'_>) -> Value {
        match value {
            RawValue::Object(document) => self.without_members(document),
            RawValue::Array(array) => Value::Array(array.iter().map(|value| self.without(value)).collect()),
            RawValue::NonJson(value) => self.without_members(value.shown().raw()),
            value => Value::from_raw(value),
        }
    }

    fn without_members(&self, document: RawDocument<'_>) -> Value {
        let members = document.iter().filter_map(|(name, value)| {
            let value = match self.member(name) {
                Excluded::No => Value::from_raw(value),
                Excluded::Inside(inner) => inner.without(value),
                Excluded::Yes => return None,
            };
            Some((name.to_owned(), value))
        });
        Value::Object(members.collect())
    }
}
