//! The tree that a patch works on: a document opened only along the paths that the patch names.
//!
//! Unopened parts are copied byte for byte, so a patch keeps the kind of every value that it does not touch.

use std::borrow::Cow;

use crate::body::{Body, is_system_property};
use crate::bson_writer::{BsonWriter, Slot, kind};
use crate::error::DocumentError;
use crate::limits::NESTING_CEILING;
use crate::raw::{RawDocument, RawElement, RawValue};
use crate::value::{Number, Value, write_at};

pub(crate) enum Node<'a> {
    /// An unopened part of the document.
    Stored(RawElement<'a>),
    Given(Value),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    Array(Vec<Node<'a>>),
}

impl<'a> Node<'a> {
    pub fn root(document: RawDocument<'a>) -> Node<'a> {
        Node::Object(members_of(document))
    }

    /// Makes the members or elements of a container reachable.
    pub fn open(&mut self) -> &mut Node<'a> {
        let opened = match self {
            Node::Stored(element) => match element.value() {
                Some(RawValue::Object(document)) => Node::Object(members_of(document)),
                Some(RawValue::Array(array)) => Node::Array(array.elements().map(Node::Stored).collect()),
                _ => return self,
            },
            Node::Given(Value::Object(members)) => {
                let members = std::mem::take(members).into_iter();
                Node::Object(members.map(|(name, value)| (Cow::Owned(name), Node::Given(value))).collect())
            }
            Node::Given(Value::Array(elements)) => {
                Node::Array(std::mem::take(elements).into_iter().map(Node::Given).collect())
            }
            _ => return self,
        };
        *self = opened;
        self
    }

    pub fn as_number(&self) -> Option<Number> {
        match self {
            Node::Stored(element) => match element.value()? {
                RawValue::Int(value) => Some(Number::Int(value)),
                RawValue::Double(value) => Some(Number::Double(value)),
                _ => None,
            },
            Node::Given(value) => value.as_number(),
            Node::Object(_) | Node::Array(_) => None,
        }
    }

    /// Whether it has at most this many levels of objects and arrays.
    pub fn nests_within(&self, levels: usize) -> bool {
        match self {
            Node::Stored(element) => element.value().is_none_or(|value| raw_nests_within(value, levels)),
            Node::Given(value) => value_nests_within(value, levels),
            Node::Object(members) => {
                levels > 0 && members.iter().all(|(_, node)| node.nests_within(levels - 1))
            }
            Node::Array(elements) => levels > 0 && elements.iter().all(|node| node.nests_within(levels - 1)),
        }
    }

    /// The document, if the root is an object; system properties at its top level are left out.
    pub fn to_body(&self, capacity: usize) -> Result<Body, DocumentError> {
        let Node::Object(members) = self else { return Err(DocumentError::NotAnObject) };
        let mut writer = BsonWriter::with_capacity(capacity);
        let length_at = writer.reserve_length();
        for (name, node) in members.iter().filter(|(name, _)| !is_system_property(name)) {
            node.write_member(name, 2, &mut writer)?;
        }
        writer.end_document(length_at);
        Body::from_writer(writer.out)
    }

    fn write_member(&self, name: &str, level: usize, writer: &mut BsonWriter) -> Result<(), DocumentError> {
        if self.is_undefined() {
            return Ok(());
        }
        let slot = writer.member(name.as_bytes());
        self.write(slot, level, writer)
    }

    fn is_undefined(&self) -> bool {
        matches!(self, Node::Given(Value::Undefined))
    }

    /// `level` is the level of this node if it is a container.
    fn write(&self, slot: Slot, level: usize, writer: &mut BsonWriter) -> Result<(), DocumentError> {
        let is_container = matches!(self, Node::Object(_) | Node::Array(_));
        if is_container && level > NESTING_CEILING {
            return Err(DocumentError::TooDeep { nesting_max: NESTING_CEILING, offset: 0 });
        }
        match self {
            Node::Given(value) => return write_at(slot, value, level, writer),
            Node::Stored(element) => writer.stored(slot, element.kind, element.value),
            Node::Array(elements) => {
                let length_at = writer.begin_document(slot, kind::ARRAY);
                let defined = elements.iter().filter(|element| !element.is_undefined());
                for (index, element) in defined.enumerate() {
                    let slot = writer.element(index);
                    element.write(slot, level + 1, writer)?;
                }
                writer.end_document(length_at);
            }
            Node::Object(members) => {
                let length_at = writer.begin_document(slot, kind::DOCUMENT);
                for (name, node) in members {
                    node.write_member(name, level + 1, writer)?;
                }
                writer.end_document(length_at);
            }
        }
        writer.finish(slot);
        Ok(())
    }
}

fn members_of(document: RawDocument<'_>) -> Vec<(Cow<'_, str>, Node<'_>)> {
    let mut members = Vec::new();
    for element in document.elements() {
        let Some(name) = element.name() else { break };
        members.push((Cow::Borrowed(name), Node::Stored(element)));
    }
    members
}

fn value_nests_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(elements) => {
            levels > 0 && elements.iter().all(|element| value_nests_within(element, levels - 1))
        }
        Value::Object(members) => {
            levels > 0 && members.iter().all(|(_, value)| value_nests_within(value, levels - 1))
        }
        _ => true,
    }
}

fn raw_nests_within(value: RawValue<'_>, levels: usize) -> bool {
    match value {
        RawValue::Array(array) => {
            levels > 0 && array.iter().all(|element| raw_nests_within(element, levels - 1))
        }
        RawValue::Object(document) => {
            levels > 0 && document.iter().all(|(_, value)| raw_nests_within(value, levels - 1))
        }
        _ => true,
    }
}
