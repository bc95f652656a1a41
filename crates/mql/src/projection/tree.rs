//! The parsed form of a projection and its application.

use crate::error::Result;
use crate::expression::{Env, Expression};
use crate::value::{Document, Str, Value};

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {
    pub(super) mode: Mode,
    pub(super) root: Branch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Only the named members.
    Include,
    /// All but the named members.
    Exclude,
    /// All members and the computed ones.
    Add,
}

/// Actions on the members of a document, in the order of the projection.
#[derive(Clone, Debug, Default)]
pub(super) struct Branch {
    pub children: Vec<(Str, Child)>,
}

#[derive(Clone, Debug)]
pub(super) enum Child {
    Keep,
    Drop,
    Compute(Expression),
    Branch(Branch),
}

impl Branch {
    pub fn child(&self, name: &str) -> Option<&Child> {
        self.children.iter().find(|(known, _)| **known == *name).map(|(_, child)| child)
    }

    fn computes(&self) -> bool {
        self.children.iter().any(|(_, child)| match child {
            Child::Compute(_) => true,
            Child::Branch(branch) => branch.computes(),
            _ => false,
        })
    }
}

impl Projection {
    /// Applies the projection to a document. Expressions see the document as it was.
    pub fn apply(&self, document: &Value, env: &mut Env) -> Result<Value> {
        let Value::Document(members) = document else { return Ok(document.clone()) };
        let mut result = match self.mode {
            Mode::Include => include(&self.root, members),
            Mode::Exclude => exclude(&self.root, members),
            Mode::Add => (**members).clone(),
        };
        if self.root.computes() {
            env.set_root(document.clone());
            compute(&self.root, &mut result, env)?;
        }
        Ok(Value::document(result))
    }
}

fn include(branch: &Branch, document: &Document) -> Document {
    let mut result = Document::new();
    for (name, value) in document.iter() {
        match branch.child(name) {
            Some(Child::Keep) => result.push(name.clone(), value.clone()),
            Some(Child::Branch(inner)) => result.push(name.clone(), include_value(inner, value)),
            _ => {}
        }
    }
    result
}

fn include_value(branch: &Branch, value: &Value) -> Value {
    match value {
        Value::Document(document) => Value::document(include(branch, document)),
        Value::Array(items) => {
            let shown = items.iter().map(|item| include_value(branch, item));
            // Computed members turn every element into a document.
            Value::array(shown.filter(|item| branch.computes() || !item.is_missing()).collect())
        }
        _ => Value::Missing,
    }
}

fn exclude(branch: &Branch, document: &Document) -> Document {
    let mut result = Document::with_capacity(document.len());
    for (name, value) in document.iter() {
        match branch.child(name) {
            Some(Child::Drop) => {}
            Some(Child::Branch(inner)) => result.push(name.clone(), exclude_value(inner, value)),
            _ => result.push(name.clone(), value.clone()),
        }
    }
    result
}

fn exclude_value(branch: &Branch, value: &Value) -> Value {
    match value {
        Value::Document(document) => Value::document(exclude(branch, document)),
        Value::Array(items) => Value::array(items.iter().map(|item| exclude_value(branch, item)).collect()),
        other => other.clone(),
    }
}

fn compute(branch: &Branch, result: &mut Document, env: &mut Env) -> Result<()> {
    for (name, child) in &branch.children {
        match child {
            Child::Compute(expression) => {
                let value = expression.evaluate(env)?;
                result.set(name, value);
            }
            Child::Branch(inner) if inner.computes() => {
                let value = compute_value(inner, result.value(name), env)?;
                result.set(name, value);
            }
            _ => {}
        }
    }
    Ok(())
}

fn compute_value(branch: &Branch, value: Value, env: &mut Env) -> Result<Value> {
    match value {
        Value::Document(document) => {
            let mut document = (*document).clone();
            compute(branch, &mut document, env)?;
            Ok(Value::document(document))
        }
        Value::Array(items) => {
            let items: Result<Vec<Value>> =
                items.iter().map(|item| compute_value(branch, item.clone(), env)).collect();
            items.map(Value::array)
        }
        _ => {
            let mut document = Document::new();
            compute(branch, &mut document, env)?;
            Ok(Value::document(document))
        }
    }
}
