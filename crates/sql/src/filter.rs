//! Conditions over one row at a time: patch conditions, and lookups over metadata feeds.

use shardlake_document::{RawDocument, RawValue, Value};

use crate::bind::{self, ComputedProperties, Environment};
use crate::bound::BoundQuery;
use crate::error::SqlError;
use crate::evaluate::holds;
use crate::evaluate::scope::Scope;
use crate::syntax::ast::{Collection, Query, Selection, Source};
use crate::syntax::{self, ParsedQuery, parse_query};
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::datum::Datum;
use crate::value::meter::Meter;

/// The input of an evaluation: a stored document in place, or a tree.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    Raw(RawDocument<'a>),
    Tree(&'a Value),
}

impl<'a> From<RawDocument<'a>> for Row<'a> {
    fn from(document: RawDocument<'a>) -> Self {
        Row::Raw(document)
    }
}

impl<'a> From<&'a Value> for Row<'a> {
    fn from(value: &'a Value) -> Self {
        Row::Tree(value)
    }
}

/// `SELECT * FROM source [[AS] alias] [WHERE condition]`.
#[derive(Debug, Clone)]
pub struct FilterQuery {
    query: ParsedQuery,
}

pub fn parse_filter_query(text: &str) -> Result<FilterQuery, SqlError> {
    let query = parse_query(text)?;
    if let Some(feature) = beyond_a_filter(query.tree()) {
        return Err(SqlError::unsupported(feature));
    }
    bind_with(|environment| bind::check(query.text(), query.tree(), environment), &[])?;
    Ok(FilterQuery { query })
}

impl FilterQuery {
    /// True when the query selects the row: its condition is exactly `true`, or absent. Parameters are name
    /// (with `@`) and value. Each call binds the query again, so for many rows use [`Filter`].
    pub fn matches<'a>(
        &self,
        row: impl Into<Row<'a>>,
        parameters: &[(String, Value)],
    ) -> Result<bool, SqlError> {
        keeps(&self.bind(parameters)?, row.into())
    }

    fn bind(&self, parameters: &[(String, Value)]) -> Result<BoundQuery, SqlError> {
        let (text, tree) = (self.query.text(), self.query.tree());
        bind_with(|environment| bind::bind(text, tree, environment), parameters)
    }
}

/// A [`FilterQuery`] with its parameters filled in once.
#[derive(Debug, Clone)]
pub struct Filter {
    query: BoundQuery,
}

impl Filter {
    pub fn parse(text: &str, parameters: &[(String, Value)]) -> shardlake_model::Result<Filter> {
        Ok(Filter { query: parse_filter_query(text)?.bind(parameters)? })
    }

    /// A row for which the condition cannot be evaluated, because a value grows too large, is not selected.
    pub fn matches<'a>(&self, row: impl Into<Row<'a>>) -> bool {
        keeps(&self.query, row.into()).unwrap_or(false)
    }
}

/// The condition of a patch: `FROM alias WHERE condition`, without parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: Box<str>,
    query: BoundQuery,
}

pub fn parse_condition(text: &str) -> Result<Condition, SqlError> {
    let (from, condition) = syntax::parse_condition(text)?;
    if let Some(feature) = beyond_a_name(&from) {
        return Err(SqlError::unsupported(feature));
    }
    let bind = |environment: &Environment<'_>| bind::bind_condition(text, &from, &condition, environment);
    Ok(Condition { text: text.into(), query: bind_with(bind, &[])? })
}

impl Condition {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True when the condition is exactly `true` for the document.
    pub fn matches<'a>(&self, row: impl Into<Row<'a>>) -> Result<bool, SqlError> {
        keeps(&self.query, row.into())
    }
}

/// The first part of the query that is more than a condition.
fn beyond_a_filter(query: &Query) -> Option<&'static str> {
    match query.select.selection {
        Selection::All => {}
        Selection::Value(_) => return Some("SELECT VALUE"),
        Selection::Items(_) => return Some("a projection other than *"),
    }
    match &query.from {
        _ if query.select.distinct => Some("SELECT DISTINCT"),
        _ if query.select.top.is_some() => Some("SELECT TOP"),
        None => Some("SELECT * without FROM"),
        _ if !query.group_by.is_empty() => Some("GROUP BY"),
        _ if query.order_by.is_some() => Some("ORDER BY"),
        _ if query.offset_limit.is_some() => Some("OFFSET LIMIT"),
        Some(from) => beyond_a_name(from),
    }
}

fn beyond_a_name(from: &Collection) -> Option<&'static str> {
    match from {
        Collection::Join { .. } => Some("JOIN"),
        Collection::Iterate { .. } => Some("iteration with IN in FROM"),
        Collection::Aliased { source: Source::Subquery(_), .. } => Some("a subquery in FROM"),
        Collection::Aliased { source: Source::Path { path, .. }, .. } if !path.is_empty() => {
            Some("a path in FROM")
        }
        Collection::Aliased { .. } => None,
    }
}

fn bind_with<T>(
    bind: impl FnOnce(&Environment<'_>) -> Result<T, SqlError>,
    parameters: &[(String, Value)],
) -> Result<T, SqlError> {
    let functions = FunctionContext::default();
    bind(&Environment {
        parameters,
        computed: &ComputedProperties::default(),
        functions: &functions,
        scripts: None,
        meter: &Meter::default(),
        is_own: false,
    })
}

fn keeps(query: &BoundQuery, row: Row<'_>) -> Result<bool, SqlError> {
    let Some(filter) = &query.filter else { return Ok(true) };
    let row = match row {
        Row::Raw(document) => Datum::from_raw(RawValue::Object(document)),
        Row::Tree(value) => Datum::from_tree(value),
    };
    let functions = FunctionContext::default();
    let meter = Meter::default();
    let context = EvaluationContext::new(&functions, &|| false, &meter);
    meter.begin_item();
    holds(filter, &Scope::new(&context).with(0, row))
}
