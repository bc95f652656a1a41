//! Tree of the paths of an update, and its walk over one document.
//!
//! Each operator stands at the end of its path. The walk visits each place of the document once.
//! Operators share no place, so that every operator and every array filter sees the document before
//! the update:
//!
//! ```text
//! {$set: {"l.$[e].status": "sent", "l.$[e].at": now}, $inc: {n: 1}},  e.status = "new"
//!
//! fields ┬ l ─ elements ─ e ─ fields ┬ at      $set now
//!        │                           └ status  $set "sent"
//!        └ n   $inc 1
//! ```
//!
//! The walk chooses the elements of `l` before any of their fields change. Fields apply in the order
//! of their names, numbers by value. New fields append in this order.
//!
//! Two updates conflict where one ends on the way of the other, or where one names fields and the
//! other elements of the same value. [`Fields::add`] finds the conflicts that the paths alone show.
//! Conflicts of `$` and of several array filters depend on the document: the walk finds them when it
//! merges the subtrees that meet in one element.

use super::change::{Change, Changed};
use super::modifier::Modifier;
use super::target::{ArrayFilters, Part, Target};
use crate::error::{BAD_VALUE, PATH_NOT_VIABLE, Result, fail};
use crate::expression::Env;
use crate::filter::Matched;
use crate::path::array_index;
use crate::value::{Document, Str, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Places behind the end of an array that one update may fill with nulls.
const PADDING_MAX: usize = 1_500_000;

const CONFLICT: i32 = 40;

/// An operator at the end of its path.
#[derive(Debug)]
struct Operator {
    path: String,
    modifier: Modifier,
}

#[derive(Clone, Debug)]
enum Node {
    Operator(Arc<Operator>),
    Fields(Fields),
    /// By identifier of the array filter; the empty identifier chooses all elements.
    Elements(BTreeMap<Str, Node>),
}

/// Updates of fields of a document, or of elements of an array by their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    named: BTreeMap<FieldKey, Node>,
    /// Updates of the element that the query matched.
    matched: Option<Box<Node>>,
}

/// Name of a field, in the order in which fields apply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FieldKey {
    /// `usize::MAX` for names that are no places in an array.
    place: usize,
    name: Str,
}

impl FieldKey {
    fn new(name: Str) -> FieldKey {
        FieldKey { place: array_index(&name).unwrap_or(usize::MAX), name }
    }
}

/// Place where two updates conflict, from the inside to the outside.
#[derive(Default)]
struct Conflict(Vec<String>);

impl Conflict {
    fn inside(mut self, step: impl Into<String>) -> Conflict {
        self.0.push(step.into());
        self
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<&str> = self.0.iter().rev().map(String::as_str).collect();
        out.write_str(&steps.join("."))
    }
}

impl Fields {
    /// Adds an operator at the end of its path.
    pub fn add(&mut self, target: &Target, modifier: Modifier) -> Result<()> {
        let operator = Arc::new(Operator { path: target.text.clone(), modifier });
        let Node::Fields(path) = Node::path(&target.parts, operator) else {
            unreachable!("a path starts with a field");
        };
        self.merge(path).or_else(|place| {
            fail!(CONFLICT, "Updating the path '{}' would create a conflict at '{place}'", target.text)
        })
    }

    fn merge(&mut self, other: Fields) -> std::result::Result<(), Conflict> {
        for (key, node) in other.named {
            let name = key.name.clone();
            merge_at(&mut self.named, key, node).map_err(|conflict| conflict.inside(&*name))?;
        }
        match (&mut self.matched, other.matched) {
            (_, None) => Ok(()),
            (Some(own), Some(node)) => own.merge(*node).map_err(|conflict| conflict.inside("$")),
            (own, node) => {
                *own = node;
                Ok(())
            }
        }
    }
}

impl Node {
    fn path(parts: &[Part], operator: Arc<Operator>) -> Node {
        let Some((part, rest)) = parts.split_first() else { return Node::Operator(operator) };
        let rest = Node::path(rest, operator);
        match part {
            Part::Field(name) => Node::Fields(Fields {
                named: BTreeMap::from([(FieldKey::new(name.clone()), rest)]),
                matched: None,
            }),
            Part::Matched => Node::Fields(Fields { named: BTreeMap::new(), matched: Some(Box::new(rest)) }),
            Part::All => Node::Elements(BTreeMap::from([(Str::from(""), rest)])),
            Part::Filtered(identifier) => Node::Elements(BTreeMap::from([(identifier.clone(), rest)])),
        }
    }

    /// An operator below that takes elements out of an array, and does not create one.
    fn operator_on_array(&self) -> Option<&Operator> {
        match self {
            Node::Operator(operator) => operator.modifier.takes_elements().then_some(&**operator),
            Node::Fields(fields) => {
                let mut nodes = fields.named.values().chain(fields.matched.as_deref());
                nodes.find_map(Node::operator_on_array)
            }
            Node::Elements(nodes) => nodes.values().find_map(Node::operator_on_array),
        }
    }

    fn merge(&mut self, other: Node) -> std::result::Result<(), Conflict> {
        match (self, other) {
            (Node::Fields(own), Node::Fields(other)) => own.merge(other),
            (Node::Elements(own), Node::Elements(other)) => {
                for (identifier, node) in other {
                    let step = format!("$[{identifier}]");
                    merge_at(own, identifier, node).map_err(|conflict| conflict.inside(step))?;
                }
                Ok(())
            }
            _ => Err(Conflict::default()),
        }
    }
}

fn merge_at<K: Ord>(nodes: &mut BTreeMap<K, Node>, key: K, node: Node) -> std::result::Result<(), Conflict> {
    match nodes.get_mut(&key) {
        Some(known) => known.merge(node),
        None => {
            nodes.insert(key, node);
            Ok(())
        }
    }
}

/// One walk of an update over one document.
pub(super) struct Walk<'a> {
    /// The document before the update.
    pub old: &'a Document,
    pub filters: &'a ArrayFilters,
    pub matched: Matched,
    /// Whether the document is inserted.
    pub inserts: bool,
    pub env: &'a mut Env,
}

/// Steps from the document to a value, for messages.
#[derive(Clone, Copy)]
struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Document,
    Field(&'p str),
    Element(usize),
}

impl<'p> Place<'p> {
    fn below(&'p self, step: Step<'p>) -> Place<'p> {
        Place { above: Some(self), step }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above
            && above.above.is_some()
        {
            write!(out, "{above}.")?;
        }
        write!(out, "{}", self.step)
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Document => Ok(()),
            Step::Field(name) => out.write_str(name),
            Step::Element(index) => write!(out, "{index}"),
        }
    }
}

impl Walk<'_> {
    /// The document after the update.
    pub fn document(&mut self, fields: &Fields) -> Result<Document> {
        let mut value = Value::document(self.old.clone());
        let place = Place { above: None, step: Step::Document };
        self.fields(fields, &mut value, &place)?;
        match value {
            Value::Document(document) => Ok(Arc::unwrap_or_clone(document)),
            _ => unreachable!("updates of fields keep a document"),
        }
    }

    /// Updates a value. A missing value stays missing where no operator creates it.
    fn node(&mut self, node: &Node, value: &mut Value, place: &Place<'_>) -> Result<()> {
        match node {
            Node::Operator(operator) => {
                let changed = Changed { document: self.old, inserts: self.inserts };
                match operator.modifier.change(value, &operator.path, changed, self.env)? {
                    Change::None => {}
                    Change::Set(new) => *value = new,
                    Change::Remove => *value = Value::Missing,
                }
                Ok(())
            }
            Node::Fields(fields) => self.fields(fields, value, place),
            Node::Elements(nodes) => self.elements(nodes, value, place),
        }
    }

    fn fields(&mut self, fields: &Fields, value: &mut Value, place: &Place<'_>) -> Result<()> {
        for (key, node) in &*self.by_name(fields, place)? {
            self.field(node, value, &key.name, place)?;
        }
        Ok(())
    }

    /// The updates by name, with those of the matched element at its place.
    fn by_name<'n>(
        &self,
        fields: &'n Fields,
        place: &Place<'_>,
    ) -> Result<Cow<'n, BTreeMap<FieldKey, Node>>> {
        let Some(node) = &fields.matched else { return Ok(Cow::Borrowed(&fields.named)) };
        let Some(index) = self.matched.index else {
            fail!(BAD_VALUE, "The positional operator did not find the match needed from the query.");
        };
        let mut named = fields.named.clone();
        merge_at(&mut named, FieldKey::new(Str::from(index.to_string())), Node::clone(node))
            .or_else(|inside| conflict(place, index, &inside))?;
        Ok(Cow::Owned(named))
    }

    fn field(&mut self, node: &Node, value: &mut Value, name: &Str, place: &Place<'_>) -> Result<()> {
        let below = place.below(Step::Field(name));
        let Some(member) = member_mut(value, name) else {
            let mut created = Value::Missing;
            self.node(node, &mut created, &below)?;
            if created.is_missing() {
                return check_viable(node, value, name, place);
            }
            return attach(value, name, created, place);
        };
        self.node(node, member, &below)?;
        if member.is_missing() {
            detach(value, name);
        }
        Ok(())
    }

    fn elements(&mut self, nodes: &BTreeMap<Str, Node>, value: &mut Value, place: &Place<'_>) -> Result<()> {
        let Value::Array(items) = value else {
            if value.is_missing() {
                fail!(
                    BAD_VALUE,
                    "The path '{place}' must exist in the document in order to apply array updates."
                );
            }
            fail!(BAD_VALUE, "Cannot apply array updates to non-array element {}: {value}", place.step);
        };
        for (index, item) in Arc::make_mut(items).iter_mut().enumerate() {
            let Some(node) = self.chosen(nodes, item, index, place)? else { continue };
            self.node(&node, item, &place.below(Step::Element(index)))?;
            if item.is_missing() {
                *item = Value::Null;
            }
        }
        Ok(())
    }

    /// The updates of an element: those whose array filters accept it as it is before the update.
    fn chosen<'n>(
        &mut self,
        nodes: &'n BTreeMap<Str, Node>,
        item: &Value,
        index: usize,
        place: &Place<'_>,
    ) -> Result<Option<Cow<'n, Node>>> {
        let mut chosen: Option<Cow<'n, Node>> = None;
        for (identifier, node) in nodes {
            if !self.accepts(identifier, item)? {
                continue;
            }
            match &mut chosen {
                None => chosen = Some(Cow::Borrowed(node)),
                Some(known) => {
                    known.to_mut().merge(node.clone()).or_else(|inside| conflict(place, index, &inside))?
                }
            }
        }
        Ok(chosen)
    }

    fn accepts(&mut self, identifier: &Str, item: &Value) -> Result<bool> {
        match self.filters.iter().find(|(known, _)| known == identifier) {
            Some((name, filter)) => filter.matches(&Document::one(name, item.clone()), self.env),
            None => Ok(true),
        }
    }
}

fn conflict(place: &Place<'_>, index: usize, inside: &Conflict) -> Result<()> {
    let element = place.below(Step::Element(index));
    let dot = if inside.0.is_empty() { "" } else { "." };
    fail!(CONFLICT, "Update created a conflict at '{element}{dot}{inside}'")
}

/// The member of a document, or the element of an array at a place.
fn member_mut<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    match value {
        Value::Document(document) if document.has(name) => Arc::make_mut(document).get_mut(name),
        Value::Array(items) => {
            let index = array_index(name).filter(|index| *index < items.len())?;
            Arc::make_mut(items).get_mut(index)
        }
        _ => None,
    }
}

/// Refuses a path through a scalar, or by a name through an array, for operators that expect an array at its end.
fn check_viable(node: &Node, value: &Value, name: &str, place: &Place<'_>) -> Result<()> {
    let is_viable = match value {
        Value::Missing | Value::Document(_) => true,
        Value::Array(_) => array_index(name).is_some(),
        _ => false,
    };
    match node.operator_on_array() {
        Some(operator) if !is_viable => fail!(
            PATH_NOT_VIABLE,
            "Cannot use the part ({name}) of ({}) to traverse the element ({{{}: {value}}})",
            operator.path,
            place.step
        ),
        _ => Ok(()),
    }
}

/// Adds a member that did not exist. A missing value becomes a document.
fn attach(value: &mut Value, name: &Str, created: Value, place: &Place<'_>) -> Result<()> {
    match value {
        Value::Missing => *value = Value::document(Document::one(name, created)),
        Value::Document(document) => Arc::make_mut(document).push(name.clone(), created),
        Value::Array(items) if let Some(index) = array_index(name) => {
            if index - items.len() > PADDING_MAX {
                fail!(BAD_VALUE, "can't backfill more than {PADDING_MAX} elements");
            }
            let items = Arc::make_mut(items);
            items.resize(index, Value::Null);
            items.push(created);
        }
        _ => fail!(PATH_NOT_VIABLE, "Cannot create field '{name}' in element {{{}: {value}}}", place.step),
    }
    Ok(())
}

/// Removes a member that an operator removed. The place of an element stays, with null.
fn detach(value: &mut Value, name: &str) {
    match value {
        Value::Document(document) => {
            Arc::make_mut(document).remove(name);
        }
        Value::Array(items) => {
            if let Some(item) = array_index(name).and_then(|index| Arc::make_mut(items).get_mut(index)) {
                *item = Value::Null;
            }
        }
        _ => {}
    }
}
