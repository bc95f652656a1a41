//! Filters: the match language of `find`, `$match`, updates and deletes (spec §12).
//!
//! | file | purpose |
//! |---|---|
//! | `parse.rs`, `operators.rs` | documents to conditions |
//! | `leaf.rs`, `bits.rs` | conditions on one value |
//! | `geo.rs`, `geo_parse.rs`, `geo_shape.rs` | `$geoWithin`, `$geoIntersects` |
//! | `near.rs`, `places.rs` | `$near`, `$nearSphere`; values that geographic indexes accept |
//! | `schema.rs`, `schema_parse.rs` | `$jsonSchema` |
//! | `unmet.rs` | the rules of a validator that a document breaks |
//!
//! A condition on a path holds if one of the values that the path reaches meets it; `$ne`, `$nin` and `$not` deny the whole.

mod bits;
mod geo;
mod geo_parse;
mod geo_shape;
mod leaf;
mod near;
mod operators;
mod parse;
mod places;
mod schema;
mod schema_parse;
mod unmet;

use crate::error::{BAD_VALUE, Error, Result, error, fail};
use crate::expression::{Env, Expression, Scope};
use crate::path;
use crate::value::{Document, Str, Value};
use leaf::{Comparison, Leaf};
use near::NEAR_NOT_ALLOWED;
pub use near::Near;
pub use parse::by_collation;
pub use places::Places;
use schema::Schema;
use shardlake_collation::Collation;
use std::sync::Arc;
pub use unmet::unmet;

/// A parsed filter.
#[derive(Clone, Debug)]
pub struct Filter {
    node: Arc<Node>,
    near: Option<Arc<Near>>,
    collation: Collation,
}

#[derive(Debug)]
enum Node {
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Matched {
    pub index: Option<usize>,
}

impl Filter {
    /// Parses a filter. Variables of `scope` may be used in `$expr`.
    pub fn parse(document: &Document, scope: &Scope) -> Result<Filter> {
        let node = Arc::new(parse::parse(document, scope)?);
        Ok(Filter { node, near: None, collation: scope.collation().clone() })
    }

    /// Parses a filter that may also order documents by their distance, with `$near` or `$nearSphere`.
    pub fn parse_ordering(document: &Document, scope: &Scope) -> Result<Filter> {
        let at_top = |error: Error| match error.code() {
            NEAR_NOT_ALLOWED => error!(BAD_VALUE, "geo $near must be top-level expr, and first on its field"),
            _ => error,
        };
        if !near::is_in(document) {
            return Filter::parse(document, scope).map_err(at_top);
        }
        let mut found = Vec::new();
        let rest = near::taken_out(document, &mut found)?;
        let rest = parse::parse(&rest, scope).map_err(at_top)?;
        let Ok([near]) = <[Near; 1]>::try_from(found) else {
            fail!(BAD_VALUE, "Too many geoNear expressions");
        };
        let near = Arc::new(near);
        let node = Arc::new(Node::And(vec![rest, Node::Near(near.clone())]));
        Ok(Filter { node, near: Some(near), collation: scope.collation().clone() })
    }

    /// The condition on distances, which orders the documents if there is no sort.
    pub fn near(&self) -> Option<&Near> {
        self.near.as_deref()
    }

    /// The collation of the filter.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// Whether a document meets the filter.
    pub fn matches(&self, document: &Document, env: &mut Env) -> Result<bool> {
        self.node.holds(document, env, &mut Matched::default())
    }

    /// Whether a document meets the filter, and by which element of an array.
    pub fn matched(&self, document: &Document, env: &mut Env) -> Result<Option<Matched>> {
        let mut matched = Matched::default();
        Ok(self.node.holds(document, env, &mut matched)?.then_some(matched))
    }
}

impl Node {
    /// All of the conditions, in the order in which the reference looks at them: by kind, then by path. If several hold
    /// by an element of an array, the last one determines the element of the positional `$`.
    fn all(nodes: Vec<Node>) -> Node {
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

    fn holds(&self, document: &Document, env: &mut Env, matched: &mut Matched) -> Result<bool> {
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

/// Condition for `$pull` on an element of an array.
#[derive(Clone, Debug)]
pub(crate) struct ElementFilter(Arc<Node>);

/// The name under which an element is looked at.
const ELEMENT: &str = "";

impl ElementFilter {
    /// Parses operators on the element itself, such as `{$gt: 3}`.
    pub fn operators(operators: &Document, scope: &Scope) -> Result<ElementFilter> {
        let nodes = operators::parse_operators(&[Str::from(ELEMENT)], operators, scope, 0)?;
        Ok(ElementFilter(Arc::new(Node::And(nodes))))
    }

    /// Each operator looks into an element that is an array, as it does at the end of a path.
    pub fn matches(&self, element: &Value, env: &mut Env) -> Result<bool> {
        self.0.holds(&Document::one(ELEMENT, element.clone()), env, &mut Matched::default())
    }
}

pub(crate) use operators::is_operator_document;
