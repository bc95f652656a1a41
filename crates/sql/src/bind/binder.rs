//! The state of binding, and its inputs.

use std::collections::HashMap;

use shardlake_document::Value;
use shardlake_model::ContainerScripts;

use super::computed::ComputedProperties;
use crate::bound::{Aggregate, Expression, Slot};
use crate::error::{Location, Rule, SqlError};
use crate::syntax::ast;
use crate::value::context::FunctionContext;
use crate::value::meter::Meter;

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

pub(super) struct Binder<'b> {
    pub text: &'b str,
    pub parameters: HashMap<&'b str, &'b Value>,
    /// False when every parameter counts as undefined.
    pub knows_parameters: bool,
    pub functions: &'b FunctionContext,
    pub scripts: Option<&'b ContainerScripts>,
    pub meter: &'b Meter,
    pub is_own: bool,
    /// Different calls of user-defined functions.
    pub user_calls: Vec<Expression>,
    /// Off only where a test compares.
    pub folds: bool,
    /// The visible variables, innermost last.
    pub names: Vec<(String, Slot)>,
    pub slots: usize,
    /// A source for the container's items exists already.
    pub reads_items: bool,
    pub aggregates: Aggregates,
    pub errors: Vec<SqlError>,
    /// Only while references outside of the group keys are gathered.
    pub references: Option<References>,
    /// An aggregate is part of another expression, which is reported only without other mistakes.
    pub composes_aggregates: bool,
}

/// Whether aggregates are allowed at the current place.
#[derive(Default)]
pub(super) enum Aggregates {
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

/// References to values of rows that no group key contains, while they are gathered.
pub(super) struct References {
    pub keys: Vec<Expression>,
    pub rows: Vec<Slot>,
    pub found: Vec<(ast::Span, Slot)>,
}

/// Which variables the first source of a query may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Its first source may name the container.
    Outermost,
    /// The first source of a query whose first source may name the container; it may name it instead.
    FirstSource,
    /// It sees the variables around it only.
    Inner,
}

impl<'b> Binder<'b> {
    pub fn new(text: &'b str, environment: &Environment<'b>) -> Self {
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
    pub fn finish<T>(&mut self, result: T) -> Result<T, SqlError> {
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

    pub fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    pub fn variable(&self, name: &str) -> Option<Slot> {
        self.names.iter().rev().find(|(candidate, _)| candidate == name).map(|(_, slot)| *slot)
    }

    /// Notes a mistake; the result takes the place of the expression.
    pub fn fail(&mut self, error: SqlError) -> Expression {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
        Expression::Literal(Value::Undefined)
    }

    pub fn fail_at(&mut self, rule: Rule, span: ast::Span) -> Expression {
        let location = self.location(span);
        self.fail(SqlError::rule(rule, location))
    }

    pub fn location(&self, span: ast::Span) -> Location {
        // The place of an unlisted mistake is never shown, and finding it would take time linear in the text.
        let span = if self.errors.len() < ERRORS_MAX { span } else { ast::Span::default() };
        Location::in_text(self.text, span.start, span.end)
    }
}
