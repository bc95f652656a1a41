//! From the syntax tree to a bound query: names become slots, parameters values, calls functions, constants are folded, and
//! every rule of the language that needs no data is checked (engine.md §1.4, 1.5, 1.9, 1.12).
//!
//! Binding continues after a mistake, with `undefined` in its place, because the reference lists all mistakes
//! of a query in the order in which it meets them: sources first, then the other clauses in the order of the
//! text.
//!
//! | file | contents |
//! |---|---|
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
//! | `computed.rs` | computed properties |
//!
//! Nothing here chooses how a query is executed.

mod call;
mod computed;
mod early;
mod expression;
mod fold;
mod from;
mod grouping;
mod order;
mod plain_filter;
mod query;
mod select;
mod simplify;
#[cfg(test)]
mod tests;
mod user_defined;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use shardlake_document::Value;
use shardlake_model::ContainerScripts;

use crate::bound::{Aggregate, BoundQuery, Expression, Prepared, Slot};
use crate::error::{Location, Rule, SqlError};
use crate::syntax::ast;
use crate::syntax::lexer::is_identifier;
use crate::value::context::FunctionContext;
use crate::value::meter::Meter;
use grouping::References;
use plain_filter::plain_filter;

pub(crate) use call::{AGGREGATES, aggregate as aggregate_function};
pub use computed::ComputedProperties;
pub(crate) use select::member_names;
pub(crate) use user_defined::function_names;

/// Limit on listed mistakes.
const ERRORS_MAX: usize = 20;

/// The inputs of binding besides the query.
pub(crate) struct Environment<'b> {
    pub parameters: &'b [(String, Value)],
    pub computed: &'b ComputedProperties,
    pub functions: &'b FunctionContext,
    /// The container's scripts; `None` where user-defined functions cannot be called.
    pub scripts: Option<&'b ContainerScripts>,
    /// Counts the work of constants.
    pub meter: &'b Meter,
    /// Whether the server has written the query, which may call functions that clients do not have.
    pub is_own: bool,
}

pub(crate) fn bind(
    text: &str,
    query: &ast::Query,
    environment: &Environment<'_>,
) -> Result<BoundQuery, SqlError> {
    check_parameters(environment.parameters)?;
    check_star(text, query)?;
    let mut binder = Binder::new(text, environment);
    let query = binder.query(query, query::Level::Outermost);
    let query = binder.finish(query)?;
    finish(query, environment.computed)
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
    binder.query(query, query::Level::Outermost);
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
    finish(query, environment.computed)
}

fn finish(mut query: BoundQuery, computed: &ComputedProperties) -> Result<BoundQuery, SqlError> {
    simplify::simplify(&mut query);
    order::check(&mut query, computed)?;
    computed.substitute(&mut query);
    user_defined::call_last(&mut query);
    early::find_early_tests(&mut query);
    query.plain_filter = Prepared(query.filter.as_ref().and_then(plain_filter).map(Arc::new));
    Ok(query)
}

struct Binder<'b> {
    text: &'b str,
    parameters: HashMap<&'b str, &'b Value>,
    /// False when every parameter counts as undefined.
    knows_parameters: bool,
    functions: &'b FunctionContext,
    scripts: Option<&'b ContainerScripts>,
    meter: &'b Meter,
    is_own: bool,
    /// Different calls of user-defined functions.
    user_calls: Vec<Expression>,
    /// Off only where a test compares.
    folds: bool,
    /// The visible variables, innermost last.
    names: Vec<(String, Slot)>,
    slots: usize,
    /// A source for the container's items exists already.
    reads_items: bool,
    aggregates: Aggregates,
    errors: Vec<SqlError>,
    /// Only while references outside of the group keys are gathered.
    references: Option<References>,
    /// An aggregate is part of another expression, which is reported only without other mistakes.
    composes_aggregates: bool,
}

/// Whether aggregates are allowed at the current place.
#[derive(Default)]
enum Aggregates {
    #[default]
    Forbidden,
    /// In a select list; the aggregates met so far.
    Collected(Vec<Aggregate>),
    /// In the argument of an aggregate.
    Within {
        list: Vec<Aggregate>,
        /// Whether it contains another aggregate.
        nests: bool,
    },
}

impl<'b> Binder<'b> {
    fn new(text: &'b str, environment: &Environment<'b>) -> Self {
        let parameters = environment.parameters.iter().map(|(name, value)| (name.as_str(), value)).collect();
        Binder {
            text,
            parameters,
            knows_parameters: true,
            functions: environment.functions,
            scripts: environment.scripts,
            meter: environment.meter,
            is_own: environment.is_own,
            user_calls: Vec::new(),
            folds: true,
            names: Vec::new(),
            // Slot 0 belongs to the item.
            slots: 1,
            reads_items: false,
            aggregates: Aggregates::Forbidden,
            errors: Vec::new(),
            references: None,
            composes_aggregates: false,
        }
    }

    /// Unsupported features count only if the reference would find no mistake.
    fn finish<T>(&mut self, result: T) -> Result<T, SqlError> {
        let mut errors = std::mem::take(&mut self.errors);
        if self.composes_aggregates
            && errors.iter().all(|error| matches!(error, SqlError::Unsupported { .. }))
        {
            errors.insert(0, SqlError::AggregateComposition);
        }
        let is_mistake = |error: &SqlError| !matches!(error, SqlError::Unsupported { .. });
        if errors.iter().any(is_mistake) {
            errors.retain(is_mistake);
        } else {
            errors.truncate(1);
        }
        match errors.len() {
            0 => Ok(result),
            1 => Err(errors.remove(0)),
            _ => Err(SqlError::Several(errors)),
        }
    }

    fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    fn variable(&self, name: &str) -> Option<Slot> {
        self.names.iter().rev().find(|(candidate, _)| candidate == name).map(|(_, slot)| *slot)
    }

    /// Notes a mistake; the result takes the place of the expression.
    fn fail(&mut self, error: SqlError) -> Expression {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
        Expression::Literal(Value::Undefined)
    }

    fn fail_at(&mut self, rule: Rule, span: ast::Span) -> Expression {
        let location = self.location(span);
        self.fail(SqlError::rule(rule, location))
    }

    fn location(&self, span: ast::Span) -> Location {
        // The place of an unlisted mistake is never shown, and finding it would take time linear in the text.
        let span = if self.errors.len() < ERRORS_MAX { span } else { ast::Span::default() };
        Location::in_text(self.text, span.start, span.end)
    }
}
