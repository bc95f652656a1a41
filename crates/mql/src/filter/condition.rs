//! Parsed conditions: on one value, on the values of a path, and combinations of them. A condition on an element of an array may hold
//! all of these.

use super::bits::Bits;
use super::geo::GeoTest;
use super::near::Near;
use super::schema::Schema;
use crate::decimal::Rounding;
use crate::error::{Result, fail};
use crate::expression::{Env, Expression};
use crate::order;
use crate::path;
use crate::pattern::Pattern;
use crate::value::{Document, Str, Value};
use serde::{Deserialize, Serialize};
use shardlake_collation::Collation;
use std::cmp::Ordering;
use std::sync::Arc;

/// A condition on a document, or on an element of an array.
#[derive(Debug)]
pub(super) enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Path(Vec<Str>, Leaf),
    /// A condition on an element itself, within `$elemMatch`.
    Element(Leaf),
    Expression(Expression),
    Schema(Box<Schema>),
    Sample(f64),
    Near(Arc<Near>),
    Constant(bool),
}

/// Which element of an array made a filter hold, for the positional `$`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Matched {
    pub index: Option<usize>,
}

impl Node {
    /// All of the conditions, in the order in which the reference looks at them: by kind, then by path. If several hold
    /// by an element of an array, the last one determines the element of the positional `$`.
    pub fn all(nodes: Vec<Node>) -> Node {
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::And(inner) => flat.extend(inner),
                node => flat.push(node),
            }
        }
        flat.sort_by(|left, right| left.place().cmp(&right.place()));
        if flat.len() == 1 { flat.swap_remove(0) } else { Node::And(flat) }
    }

    fn place(&self) -> (u8, &[Str]) {
        match self {
            Node::And(_) => (0, &[]),
            Node::Or(_) => (1, &[]),
            Node::Path(path, leaf) => (leaf.place(), path),
            Node::Element(leaf) => (leaf.place(), &[]),
            Node::Not(_) => (30, &[]),
            Node::Schema(_) | Node::Sample(_) => (41, &[]),
            Node::Expression(_) => (42, &[]),
            Node::Constant(_) => (43, &[]),
            Node::Near(_) => (44, &[]),
        }
    }

    pub fn holds(&self, document: &Document, env: &mut Env, matched: &mut Matched) -> Result<bool> {
        match self {
            Node::And(nodes) => {
                for node in nodes {
                    if !node.holds(document, env, matched)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Or(nodes) => {
                let tells = is_of_one_value(nodes);
                for node in nodes {
                    let mut apart = Matched::default();
                    if node.holds(document, env, if tells { &mut *matched } else { &mut apart })? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Node::Not(node) => Ok(!node.holds(document, env, &mut Matched::default())?),
            Node::Path(path, leaf) => leaf.holds_at(document, path, env, matched),
            Node::Element(_) => Ok(false),
            Node::Expression(expression) => {
                let root = Value::Document(Arc::new(document.clone()));
                Ok(expression.evaluate_on(env, &root)?.is_true())
            }
            Node::Schema(schema) => schema.accepts_document(document),
            Node::Sample(rate) => Ok(env.random() < *rate),
            Node::Near(near) => Ok(near.holds(document)),
            Node::Constant(answer) => Ok(*answer),
        }
    }

    /// Whether an element meets conditions that `$elemMatch` states without names.
    fn element_holds(&self, element: &Value, env: &mut Env) -> Result<bool> {
        match self {
            Node::And(nodes) => {
                for node in nodes {
                    if !node.element_holds(element, env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Not(node) => Ok(!node.element_holds(element, env)?),
            Node::Element(leaf) => leaf.holds_for(element, env),
            _ => Ok(false),
        }
    }
}

/// Whether alternatives are one condition in other words: values of one path, as in `$in`. Only such alternatives
/// determine the element of the positional `$`.
fn is_of_one_value(alternatives: &[Node]) -> bool {
    let path_of = |node: &Node| match node {
        Node::Path(path, Leaf::Compare(Comparison::Equal, ..) | Leaf::In(..)) => Some(path.clone()),
        _ => None,
    };
    match alternatives {
        [_] => true,
        [first, rest @ ..] => {
            path_of(first).is_some_and(|path| rest.iter().all(|node| path_of(node).as_ref() == Some(&path)))
        }
        [] => false,
    }
}

impl Leaf {
    fn holds_at(
        &self,
        document: &Document,
        path: &[Str],
        env: &mut Env,
        matched: &mut Matched,
    ) -> Result<bool> {
        let mut failure = None;
        let mut index = None;
        let found = path::walk(document, path, &mut |reached| {
            let mut test = |value: &Value| match self.holds_for(value, env) {
                Ok(holds) => holds,
                Err(error) => {
                    failure = Some(error);
                    true
                }
            };
            if let Value::Array(items) = reached.value {
                if self.looks_into_arrays()
                    && let Some(at) = items.iter().position(&mut test)
                {
                    index = reached.index.or(Some(at));
                    return true;
                }
                match self.matching_element(items, env) {
                    Ok(Some(at)) => index = reached.index.or(Some(at)),
                    Ok(None) => {}
                    Err(error) => {
                        failure = Some(error);
                        return true;
                    }
                }
            }
            let mut test = |value: &Value| match self.holds_for(value, env) {
                Ok(holds) => holds,
                Err(error) => {
                    failure = Some(error);
                    true
                }
            };
            let holds = test(reached.value);
            if holds && index.is_none() {
                index = reached.index;
            }
            holds
        });
        if let Some(error) = failure {
            return Err(error);
        }
        if found && index.is_some() {
            matched.index = index;
        }
        Ok(found)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A condition on one value.
#[derive(Debug)]
pub(super) enum Leaf {
    Compare(Comparison, Value, Collation),
    /// [Collated](order::collated) values in their order, of which there may be a million, and patterns.
    In(Vec<Value>, Vec<Leaf>, Collation),
    /// Compiled pattern, and the regex that equals it when stored.
    Regex(Arc<Pattern>, Value),
    Modulo(i64, i64),
    Exists,
    /// Numbers of types; whether all numbers are accepted as well.
    Type(Vec<i32>, bool),
    Size(i64),
    /// An element that is a document and meets a filter.
    ElementDocument(Box<Node>),
    /// An element that meets operators.
    ElementValue(Box<Node>),
    Bits(Bits),
    Geo(GeoTest),
    Never,
}

impl Leaf {
    /// The place of this kind among those that are looked at together.
    pub fn place(&self) -> u8 {
        match self {
            Leaf::ElementDocument(_) => 10,
            Leaf::ElementValue(_) => 11,
            Leaf::Size(_) => 12,
            Leaf::Compare(Comparison::Equal, ..) => 13,
            Leaf::Compare(Comparison::LessOrEqual, ..) => 14,
            Leaf::Compare(Comparison::Less, ..) => 15,
            Leaf::Compare(Comparison::Greater, ..) => 16,
            Leaf::Compare(Comparison::GreaterOrEqual, ..) => 17,
            Leaf::Regex(..) => 18,
            Leaf::Modulo(..) => 19,
            Leaf::Exists => 20,
            Leaf::In(..) => 21,
            Leaf::Bits(_) => 22,
            Leaf::Type(..) => 31,
            Leaf::Geo(_) => 32,
            Leaf::Never => 43,
        }
    }

    /// Whether an array meets the condition by one of its elements.
    pub fn looks_into_arrays(&self) -> bool {
        !matches!(
            self,
            Leaf::Exists | Leaf::Size(_) | Leaf::ElementDocument(_) | Leaf::ElementValue(_) | Leaf::Never
        )
    }

    /// The element by which `$elemMatch` holds.
    pub fn matching_element(&self, items: &[Value], env: &mut Env) -> Result<Option<usize>> {
        for (at, item) in items.iter().enumerate() {
            if self.element_meets(item, env)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn element_meets(&self, item: &Value, env: &mut Env) -> Result<bool> {
        match (self, item) {
            (Leaf::ElementDocument(node), Value::Document(document)) => {
                node.holds(document, env, &mut Matched::default())
            }
            // The members of an array have their places as names.
            (Leaf::ElementDocument(node), Value::Array(items)) => {
                let members =
                    items.iter().enumerate().map(|(at, item)| (at.to_string().into(), item.clone()));
                node.holds(&members.collect(), env, &mut Matched::default())
            }
            // An element that is an array is compared as a whole.
            (Leaf::ElementValue(node), item) => node.element_holds(item, env),
            _ => Ok(false),
        }
    }

    /// Whether one value meets the condition; `Missing` stands for no value.
    pub fn holds_for(&self, value: &Value, env: &mut Env) -> Result<bool> {
        env.repeat()?;
        Ok(match self {
            Leaf::Compare(comparison, wanted, collation) => compare((*comparison, collation), value, wanted),
            Leaf::In(values, patterns, collation) => {
                let value_or_null = if value.is_missing() { &Value::Null } else { value };
                if contains(values, value_or_null, collation)? {
                    return Ok(true);
                }
                for pattern in patterns {
                    if pattern.holds_for(value, env)? {
                        return Ok(true);
                    }
                }
                false
            }
            Leaf::Regex(pattern, own) => match value {
                Value::String(text) | Value::Symbol(text) => match pattern.is_match(text) {
                    Ok(found) => found,
                    Err(words) => fail!(51091, "Regular expression is invalid: {words}"),
                },
                Value::Regex(_) => order::equal(value, own),
                _ => false,
            },
            Leaf::Modulo(divisor, rest) => match whole(value) {
                Some(number) => number.wrapping_rem(*divisor) == *rest,
                None => false,
            },
            Leaf::Exists => !value.is_missing(),
            Leaf::Type(types, numbers) => {
                types.contains(&value.type_number()) && !value.is_missing() || (*numbers && value.is_number())
            }
            Leaf::Size(size) => matches!(value, Value::Array(items) if items.len() as i64 == *size),
            Leaf::ElementDocument(_) | Leaf::ElementValue(_) => match value {
                Value::Array(items) => {
                    for item in items.iter() {
                        if self.element_meets(item, env)? {
                            return Ok(true);
                        }
                    }
                    false
                }
                _ => false,
            },
            Leaf::Bits(bits) => bits.holds_for(value),
            Leaf::Geo(test) => test.holds_for(value),
            Leaf::Never => false,
        })
    }
}

/// Whether a value is one of [collated](order::collated) values that are in order.
fn contains(values: &[Value], value: &Value, collation: &Collation) -> Result<bool> {
    let is_one = |value: &Value| values.binary_search_by(|wanted| order::compare(wanted, value)).is_ok();
    Ok(if collation.is_simple() { is_one(value) } else { is_one(&order::collated(collation, value)?) })
}

/// Compares within a class of types; null also means no value.
fn compare((comparison, collation): (Comparison, &Collation), value: &Value, wanted: &Value) -> bool {
    let or_equal =
        matches!(comparison, Comparison::Equal | Comparison::LessOrEqual | Comparison::GreaterOrEqual);
    if value.is_missing() && !matches!(wanted, Value::MinKey | Value::MaxKey) {
        return or_equal && matches!(wanted, Value::Null);
    }
    if order::class(value) != order::class(wanted) {
        return matches!(
            (wanted, comparison),
            (Value::MaxKey, Comparison::Less | Comparison::LessOrEqual)
                | (Value::MinKey, Comparison::Greater | Comparison::GreaterOrEqual)
        );
    }
    if value.is_nan() || wanted.is_nan() {
        return or_equal && value.is_nan() && wanted.is_nan();
    }
    let found = order::compare_by(collation, value, wanted);
    match comparison {
        Comparison::Equal => found == Ordering::Equal,
        Comparison::Less => found == Ordering::Less,
        Comparison::LessOrEqual => found != Ordering::Greater,
        Comparison::Greater => found == Ordering::Greater,
        Comparison::GreaterOrEqual => found != Ordering::Less,
    }
}

/// A number without its fraction, if it fits 64 bits.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Double(number) => crate::value::double_to_i64(number.trunc()),
        Value::Decimal(number) => {
            number.to_whole(Rounding::Down).to_integer().and_then(|number| i64::try_from(number).ok())
        }
        other => other.to_i64_exact(),
    }
}
