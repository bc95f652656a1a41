//! Filters: the match language of `find`, `$match`, updates and deletes (spec §12).
//!
//! | file | purpose |
//! |---|---|
//! | `parse.rs`, `operators.rs` | documents to conditions |
//! | `condition.rs`, `bits.rs` | the conditions, and when a document meets them |
//! | `geo.rs`, `geo_parse.rs`, `geo_shape.rs` | `$geoWithin`, `$geoIntersects` |
//! | `near.rs`, `places.rs` | `$near`, `$nearSphere`; values that geographic indexes accept |
//! | `schema.rs`, `schema_parse.rs` | `$jsonSchema` |
//! | `unmet.rs` | the rules of a validator that a document breaks |
//!
//! A condition on a path holds if one of the values that the path reaches meets it; `$ne`, `$nin` and `$not` deny the whole.

mod bits;
mod condition;
mod geo;
mod geo_parse;
mod geo_shape;
mod near;
mod operators;
mod parse;
mod places;
mod schema;
mod schema_parse;
mod unmet;

use crate::error::{BAD_VALUE, Error, Result, error, fail};
use crate::expression::{Env, Scope};
use crate::value::{Document, Str, Value};
pub use condition::Matched;
use condition::Node;
use near::NEAR_NOT_ALLOWED;
pub use near::Near;
pub use parse::by_collation;
pub(crate) use parse::{encodable_filter, received_filter};
pub use places::Places;
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
        if rest.has("$text") {
            fail!(BAD_VALUE, "text and geoNear not allowed in same query");
        }
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

/// Condition for `$pull` on an element of an array.
#[derive(Clone, Debug)]
pub(crate) struct ElementFilter(Arc<Node>);

/// The name under which an element is looked at.
const ELEMENT: &str = "";

impl ElementFilter {
    /// Parses operators on the element itself, such as `{$gt: 3}`.
    pub fn operators(operators: &Document, scope: &Scope) -> Result<ElementFilter> {
        let nodes = parse::parse_operators(&[Str::from(ELEMENT)], operators, scope, 0)?;
        Ok(ElementFilter(Arc::new(Node::And(nodes))))
    }

    /// Each operator looks into an element that is an array, as it does at the end of a path.
    pub fn matches(&self, element: &Value, env: &mut Env) -> Result<bool> {
        self.0.holds(&Document::one(ELEMENT, element.clone()), env, &mut Matched::default())
    }
}

pub(crate) use operators::is_operator_document;
