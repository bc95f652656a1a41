//! Partial updates of a document: six operations, applied in order, all or nothing.
//!
//! | operation | object member | array element | else |
//! |---|---|---|---|
//! | add | creates or overwrites | inserts before the index; the length or `-` appends | |
//! | set | creates or overwrites | overwrites; the length or `-` appends | |
//! | replace | must exist | must exist | |
//! | remove | must exist | must exist, later ones move up | |
//! | incr | creates if absent | must exist | target must be a number |
//! | move | `from` must exist; taken out, then set | the same | not into its own child |
//!
//! Parents must exist and be objects or arrays. An operation sees the results of earlier ones. `incr` keeps
//! integers: a sum that leaves 64 bits is an error, not a rounded double; integer plus double is a double.
//!
//! Untouched values keep their bytes, and with them their kinds.
//!
//! The caller protects the partition key, `id` and system properties, with [`touched_properties`] and
//! [`PatchOperation::paths`].

use std::borrow::Cow;

use crate::body::Body;
use crate::error::DocumentError;
use crate::limits::ParseLimits;
use crate::patch_tree::Node;
use crate::raw::RawDocument;
use crate::value::{Number, Value};
use serde::{Deserialize, Serialize};

/// Paths are the segments of a JSON pointer, as [`parse_path`] returns them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PatchOperation {
    Add { path: Vec<String>, value: Value },
    Set { path: Vec<String>, value: Value },
    Replace { path: Vec<String>, value: Value },
    Remove { path: Vec<String> },
    Increment { path: Vec<String>, by: Number },
    Move { from: Vec<String>, path: Vec<String> },
}

/// Why a patch was refused; `index` counts operations from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("patch path '{path}' must start with '/' and name a property")]
    Path { path: String },
    #[error("patch path '{path}' has a '~' that is not part of '~0' or '~1'")]
    PathEscape { path: String },
    #[error("patch operation {index}: parent of '{path}' does not exist, no path found beyond: '{beyond}'")]
    NoParent { index: usize, path: String, beyond: String },
    #[error("patch operation {index}: '{path}' does not exist")]
    NoTarget { index: usize, path: String },
    #[error("patch operation {index}: '{path}' is no position in an array of {length} elements")]
    ArrayIndex { index: usize, path: String, length: usize },
    #[error("patch operation {index}: '{path}' is not a number")]
    NotANumber { index: usize, path: String },
    #[error("patch operation {index}: increment of '{path}' leaves the range of its number")]
    Overflow { index: usize, path: String },
    #[error("patch operation {index}: '{from}' cannot move into its own child '{path}'")]
    IntoOwnChild { index: usize, from: String, path: String },
    #[error("the patched document is not valid: {0}")]
    Result(#[from] DocumentError),
}

impl PatchOperation {
    /// The paths the operation changes: its `path`, and `from` of a move.
    pub fn paths(&self) -> impl Iterator<Item = &[String]> {
        let (path, from) = match self {
            PatchOperation::Add { path, .. }
            | PatchOperation::Set { path, .. }
            | PatchOperation::Replace { path, .. }
            | PatchOperation::Remove { path }
            | PatchOperation::Increment { path, .. } => (path, None),
            PatchOperation::Move { from, path } => (path, Some(from)),
        };
        std::iter::once(path).chain(from).map(Vec::as_slice)
    }
}

/// Names of the top-level properties that a patch touches, with repetitions.
pub fn touched_properties(operations: &[PatchOperation]) -> impl Iterator<Item = &str> {
    operations.iter().flat_map(PatchOperation::paths).filter_map(|path| path.first().map(String::as_str))
}

/// Splits a JSON pointer into its segments: `/a~1b/0` → `a/b`, `0`. The root is not a path.
pub fn parse_path(pointer: &str) -> Result<Vec<String>, PatchError> {
    let Some(segments) = pointer.strip_prefix('/') else {
        return Err(PatchError::Path { path: pointer.to_string() });
    };
    let unescaped = segments.split('/').map(unescape_segment).collect::<Option<Vec<_>>>();
    unescaped.ok_or_else(|| PatchError::PathEscape { path: pointer.to_string() })
}

/// Applies the operations to a copy of the document.
pub fn apply_patch(body: RawDocument<'_>, operations: &[PatchOperation]) -> Result<Body, PatchError> {
    let mut root = Node::root(body);
    for (index, operation) in operations.iter().enumerate() {
        apply(&mut root, index, operation)?;
    }
    // Operations can nest deeper than parsed text may.
    let nesting_max = ParseLimits::default().nesting_max;
    if !root.nests_within(nesting_max) {
        return Err(DocumentError::TooDeep { nesting_max, offset: 0 }.into());
    }
    Ok(root.to_body(body.as_bytes().len() + 256)?)
}

fn unescape_segment(segment: &str) -> Option<String> {
    let mut parts = segment.split('~');
    let mut name = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (escaped, rest) = match part.as_bytes().first()? {
            b'0' => ('~', &part[1..]),
            b'1' => ('/', &part[1..]),
            _ => return None,
        };
        name.push(escaped);
        name.push_str(rest);
    }
    Some(name)
}

/// The text form of a path, for messages.
fn pointer(path: &[String]) -> String {
    let escaped = |segment: &String| format!("/{}", segment.replace('~', "~0").replace('/', "~1"));
    let text: String = path.iter().map(escaped).collect();
    let is_same = || parse_path(&text).is_ok_and(|parsed| parsed == path);
    debug_assert!(path.is_empty() || is_same(), "a path is read as it is written");
    text
}

fn apply(root: &mut Node<'_>, index: usize, operation: &PatchOperation) -> Result<(), PatchError> {
    match operation {
        PatchOperation::Add { path, value } => target(root, index, path)?.add(Node::Given(value.clone())),
        PatchOperation::Set { path, value } => target(root, index, path)?.set(Node::Given(value.clone())),
        PatchOperation::Replace { path, value } => {
            *target(root, index, path)?.existing()? = Node::Given(value.clone());
            Ok(())
        }
        PatchOperation::Remove { path } => target(root, index, path)?.remove().map(drop),
        PatchOperation::Increment { path, by } => target(root, index, path)?.increment(*by),
        PatchOperation::Move { from, path } => {
            if path == from {
                // Removing an array element and then setting its index would overwrite the next element,
                // which has moved up.
                return target(root, index, from)?.existing().map(drop);
            }
            if path.starts_with(from) {
                return Err(PatchError::IntoOwnChild { index, from: pointer(from), path: pointer(path) });
            }
            let value = target(root, index, from)?.remove()?;
            target(root, index, path)?.set(value)
        }
    }
}

/// The target of a path: an existing container, and a member or position that may be missing.
struct Target<'v, 'a> {
    parent: Parent<'v, 'a>,
    segment: &'v str,
    /// For messages.
    index: usize,
    path: &'v [String],
}

enum Parent<'v, 'a> {
    Object(&'v mut Vec<(Cow<'a, str>, Node<'a>)>),
    Array(&'v mut Vec<Node<'a>>),
}

fn target<'v, 'a>(
    root: &'v mut Node<'a>,
    index: usize,
    path: &'v [String],
) -> Result<Target<'v, 'a>, PatchError> {
    let Some((segment, parents)) = path.split_last() else {
        return Err(PatchError::Path { path: String::new() });
    };
    let no_parent =
        |beyond: &str| PatchError::NoParent { index, path: pointer(path), beyond: beyond.to_owned() };
    let mut container = root;
    for name in parents {
        container = child(container, name).ok_or_else(|| no_parent(name))?;
    }
    let parent = match container.open() {
        Node::Object(members) => Parent::Object(members),
        Node::Array(elements) => Parent::Array(elements),
        _ => return Err(no_parent(parents.last().map_or("", String::as_str))),
    };
    Ok(Target { parent, segment, index, path })
}

fn child<'v, 'a>(container: &'v mut Node<'a>, segment: &str) -> Option<&'v mut Node<'a>> {
    match container.open() {
        Node::Object(members) => members.iter_mut().find(|(name, _)| name == segment).map(|(_, node)| node),
        Node::Array(elements) => elements.get_mut(array_index(segment)?),
        _ => None,
    }
}

/// A decimal number without sign or leading zeros, as in JSON pointers.
fn array_index(segment: &str) -> Option<usize> {
    let is_canonical = segment == "0" || !segment.starts_with('0');
    let is_decimal = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    if is_canonical && is_decimal { segment.parse().ok() } else { None }
}

impl<'v, 'a> Target<'v, 'a> {
    fn add(self, value: Node<'a>) -> Result<(), PatchError> {
        let position = self.position_or_end()?;
        match (self.parent, position) {
            (Parent::Object(members), _) => set_member(members, self.segment, value),
            (Parent::Array(elements), position) => elements.insert(position, value),
        }
        Ok(())
    }

    fn set(self, value: Node<'a>) -> Result<(), PatchError> {
        let position = self.position_or_end()?;
        match self.parent {
            Parent::Object(members) => set_member(members, self.segment, value),
            Parent::Array(elements) => match elements.get_mut(position) {
                Some(element) => *element = value,
                None => elements.push(value),
            },
        }
        Ok(())
    }

    fn existing(self) -> Result<&'v mut Node<'a>, PatchError> {
        let missing = self.missing();
        let found = match self.parent {
            Parent::Object(members) => {
                members.iter_mut().find(|(name, _)| name == self.segment).map(|(_, value)| value)
            }
            Parent::Array(elements) => array_index(self.segment).and_then(|index| elements.get_mut(index)),
        };
        found.ok_or(missing)
    }

    fn remove(self) -> Result<Node<'a>, PatchError> {
        let missing = self.missing();
        match self.parent {
            Parent::Object(members) => {
                let position = members.iter().position(|(name, _)| name == self.segment).ok_or(missing)?;
                Ok(members.remove(position).1)
            }
            Parent::Array(elements) => {
                let position = array_index(self.segment).filter(|index| *index < elements.len());
                Ok(elements.remove(position.ok_or(missing)?))
            }
        }
    }

    fn increment(self, by: Number) -> Result<(), PatchError> {
        let is_new_member = match &self.parent {
            Parent::Object(members) => !members.iter().any(|(name, _)| name == self.segment),
            Parent::Array(_) => false,
        };
        if is_new_member {
            return self.set(Node::Given(by.into()));
        }
        let (index, path) = (self.index, self.path);
        let value = self.existing()?;
        let Some(number) = value.as_number() else {
            return Err(PatchError::NotANumber { index, path: pointer(path) });
        };
        let sum =
            add_numbers(number, by).ok_or_else(|| PatchError::Overflow { index, path: pointer(path) })?;
        *value = Node::Given(sum.into());
        Ok(())
    }

    /// The index at which an array gets a new element; unused for objects.
    fn position_or_end(&self) -> Result<usize, PatchError> {
        let Parent::Array(elements) = &self.parent else { return Ok(0) };
        let length = elements.len();
        let position = if self.segment == "-" { Some(length) } else { array_index(self.segment) };
        let position = position.filter(|position| *position <= length);
        position.ok_or_else(|| PatchError::ArrayIndex { index: self.index, path: pointer(self.path), length })
    }

    fn missing(&self) -> PatchError {
        PatchError::NoTarget { index: self.index, path: pointer(self.path) }
    }
}

fn set_member<'a>(members: &mut Vec<(Cow<'a, str>, Node<'a>)>, name: &str, value: Node<'a>) {
    match members.iter_mut().find(|(candidate, _)| candidate == name) {
        Some((_, existing)) => *existing = value,
        None => members.push((Cow::Owned(name.to_owned()), value)),
    }
}

fn add_numbers(left: Number, right: Number) -> Option<Number> {
    match (left, right) {
        (Number::Int(left), Number::Int(right)) => left.checked_add(right).map(Number::Int),
        (left, right) => {
            Some(left.as_f64() + right.as_f64()).filter(|sum| sum.is_finite()).map(Number::Double)
        }
    }
}
