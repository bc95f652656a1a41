//! Documents: members in the order in which they were written.

use super::{Str, Value, names};

/// A document. Names may repeat, as BSON allows; reading by name finds the first.
#[derive(Clone, Debug, Default)]
pub struct Document {
    members: Vec<(Str, Value)>,
}

impl Document {
    pub fn new() -> Document {
        Document::default()
    }

    pub fn with_capacity(members: usize) -> Document {
        Document { members: Vec::with_capacity(members) }
    }

    /// A document of one member.
    pub fn one(name: &str, value: impl Into<Value>) -> Document {
        let mut document = Document::with_capacity(1);
        document.push(names::shared(name), value.into());
        document
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Str, &Value)> + ExactSizeIterator {
        self.members.iter().map(|(name, value)| (name, value))
    }

    /// The first member and its name.
    pub fn first(&self) -> Option<(&Str, &Value)> {
        self.members.first().map(|(name, value)| (name, value))
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(member, _)| **member == *name).map(|(_, value)| value)
    }

    /// The value of a member, or `Missing`.
    pub fn value(&self, name: &str) -> Value {
        self.get(name).cloned().unwrap_or_default()
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.members.iter_mut().find(|(member, _)| **member == *name).map(|(_, value)| value)
    }

    /// Appends a member; `Missing` adds nothing.
    pub fn push(&mut self, name: impl Into<Str>, value: Value) {
        if !value.is_missing() {
            self.members.push((name.into(), value));
        }
    }

    /// Replaces the value of a member where it stands, or appends it; `Missing` takes it out.
    pub fn set(&mut self, name: &Str, value: Value) {
        if value.is_missing() {
            self.remove(name);
            return;
        }
        match self.get_mut(name) {
            Some(slot) => *slot = value,
            None => self.members.push((name.clone(), value)),
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.members.iter().position(|(member, _)| **member == *name)?;
        Some(self.members.remove(at).1)
    }

    /// Puts a member before all others.
    pub fn push_front(&mut self, name: impl Into<Str>, value: Value) {
        self.members.insert(0, (name.into(), value));
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Str, &Value) -> bool) {
        self.members.retain(|(name, value)| keep(name, value));
    }
}

impl FromIterator<(Str, Value)> for Document {
    fn from_iter<T: IntoIterator<Item = (Str, Value)>>(members: T) -> Document {
        Document { members: members.into_iter().filter(|(_, value)| !value.is_missing()).collect() }
    }
}
