//! From the syntax tree to a bound query: names become slots, parameters values, calls functions, constants are folded, and
//! every rule of the language that needs no data is checked (engine.md §1.4, 1.5, 1.9, 1.12).
//!
//! Binding continues after a mistake, with `undefined` in its place, because the reference lists all mistakes
//! of a query in the order in which it meets them: sources first, then the other clauses in the order of the
//! text.
//!
//! | file | contents |
//! |---|---|
//! | `binder.rs` | the state of binding, and its inputs |
//! | `query.rs` | the clauses of one query or subquery |
//! | `from.rs` | sources and the names that they make |
//! | `select.rs` | the projection and the names in it |
//! | `grouping.rs` | the rules of grouped queries |
//! | `expression.rs`, `call.rs` | expressions |
//! | `user_defined.rs` | user-defined functions: which there are, and when they are called |
//! | `fold.rs` | constants |
//! | `simplify.rs` | subqueries in `FROM` that only rename an item's parts; conditions |
//! | `order.rs` | the rules of `ORDER BY` |
//! | `plain_filter.rs` | conditions over scalar values alone |
//! | `early.rs` | conditions that need not wait for all sources |
//! | `computed.rs`, `compile.rs` | computed properties: in queries; from their texts |
//!
//! Nothing here chooses how a query is executed.

mod binder;
mod call;
mod compile;
mod computed;
mod early;
mod expression;
mod fold;
mod from;
mod grouping;
mod invariants;
mod order;
mod plain_filter;
mod query;
mod select;
mod simplify;
#[cfg(test)]
mod tests;
mod user_defined;

use std::collections::HashSet;
use std::sync::Arc;

use shardlake_document::Value;

use crate::bound::{BoundQuery, Prepared};
use crate::error::{Location, SqlError};
use crate::syntax::ast;
use crate::syntax::lexer::is_identifier;
use binder::{Binder, Level};
use plain_filter::plain_filter;

pub(crate) use binder::Environment;
pub(crate) use call::{AGGREGATES, aggregate as aggregate_function};
pub use computed::ComputedProperties;
pub(crate) use select::member_names;
pub(crate) use user_defined::function_names;

pub(crate) fn bind(
    text: &str,
    query: &ast::Query,
    environment: &Environment<'_>,
) -> Result<BoundQuery, SqlError> {
    check_parameters(environment.parameters)?;
    check_star(text, query)?;
    let mut binder = Binder::new(text, environment);
    let query = binder.query(query, Level::Outermost);
    let query = binder.finish(query)?;
    finish(query, binder.slots, environment.computed)
}

/// `SELECT *` without a `FROM`; reported instead of all other mistakes.
fn check_star(text: &str, query: &ast::Query) -> Result<(), SqlError> {
    let end = query.select.span.end;
    if query.select.selection != ast::Selection::All || query.from.is_some() {
        return Ok(());
    }
    Err(SqlError::StarWithoutFrom { location: Location::in_text(text, end.saturating_sub(1), end) })
}

/// Checks that names are `@` and an identifier, each with one value.
pub fn check_parameters(parameters: &[(String, Value)]) -> Result<(), SqlError> {
    let mut names = HashSet::with_capacity(parameters.len());
    for (name, _) in parameters {
        if !name.strip_prefix('@').is_some_and(is_identifier) {
            return Err(SqlError::InvalidParameterName { name: name.clone() });
        }
        if !names.insert(name) {
            return Err(SqlError::DuplicateParameter { name: name.clone() });
        }
    }
    Ok(())
}

/// Like [`bind`], to find mistakes only, before the parameters are known.
pub(crate) fn check(text: &str, query: &ast::Query, environment: &Environment<'_>) -> Result<(), SqlError> {
    check_star(text, query)?;
    let mut binder = Binder::new(text, environment);
    binder.knows_parameters = false;
    binder.query(query, Level::Outermost);
    binder.finish(())
}

/// The condition of `FROM … WHERE condition`, over the item in slot 0.
pub(crate) fn bind_condition(
    text: &str,
    from: &ast::Collection,
    condition: &ast::Expression,
    environment: &Environment<'_>,
) -> Result<BoundQuery, SqlError> {
    let mut binder = Binder::new(text, environment);
    let query = binder.condition(from, condition);
    let query = binder.finish(query)?;
    finish(query, binder.slots, environment.computed)
}

fn finish(
    mut query: BoundQuery,
    slots: usize,
    computed: &ComputedProperties,
) -> Result<BoundQuery, SqlError> {
    simplify::simplify(&mut query);
    order::check(&mut query, computed)?;
    computed.substitute(&mut query);
    user_defined::call_last(&mut query);
    early::find_early_tests(&mut query);
    query.plain_filter = Prepared(query.filter.as_ref().and_then(plain_filter).map(Arc::new));
    if cfg!(debug_assertions) {
        invariants::check(&query, slots);
    }
    Ok(query)
}
