//! What callers hold: parsed queries that select whole rows, and conditions.

use shardlake_document::{RawDocument, RawValue, Value};

use crate::clauses::{self, Source};
use crate::error::SqlError;
use crate::evaluate::datum::Datum;
use crate::evaluate::scope::{EvaluationContext, Scope};
use crate::expression::Expression;
use crate::functions::FunctionContext;
use crate::parser::Parser;
use crate::resolve::{bind_parameters, resolve_identifiers};

/// Bytes of query text (engine.md §1.2).
const TEXT_SIZE_BYTES_MAX: usize = 512 * 1024;

/// What a query is evaluated over: a stored document where it lies, or a tree.
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
#[derive(Debug, Clone, PartialEq)]
pub struct FilterQuery {
    filter: Option<Expression>,
}

pub fn parse_filter_query(text: &str) -> Result<FilterQuery, SqlError> {
    parse(text, clauses::select_all).map(|filter| FilterQuery { filter })
}

impl FilterQuery {
    /// True when the query selects the row: its condition is exactly `true`, or absent. Parameters are name (with `@`)
    /// and value; each use is looked up in the list, so for many parameters or rows use [`Filter`].
    pub fn matches<'a>(
        &self,
        row: impl Into<Row<'a>>,
        parameters: &[(String, Value)],
    ) -> Result<bool, SqlError> {
        let mut filter = self.filter.clone();
        if let Some(filter) = &mut filter {
            bind_parameters(filter, parameters)?;
        }
        holds(filter.as_ref(), row.into())
    }
}

/// A [`FilterQuery`] with its parameters filled in once: nothing is left that can fail.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    filter: Option<Expression>,
}

impl Filter {
    pub fn parse(text: &str, parameters: &[(String, Value)]) -> shardlake_model::Result<Filter> {
        let mut filter = parse_filter_query(text)?.filter;
        if let Some(filter) = &mut filter {
            bind_parameters(filter, parameters)?;
        }
        Ok(Filter { filter })
    }

    pub fn matches<'a>(&self, row: impl Into<Row<'a>>) -> bool {
        holds(self.filter.as_ref(), row.into()).expect("only parameters can fail, and there are none left")
    }
}

/// The condition of a patch: `FROM alias WHERE condition`, without parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    filter: Expression,
}

pub fn parse_condition(text: &str) -> Result<Condition, SqlError> {
    let mut filter = parse(text, |parser| {
        let source = clauses::source(parser)?;
        if source.filter.is_none() { Err(parser.syntax_error_here()) } else { Ok(source) }
    })?
    .expect("checked right after parsing");
    // A condition has no list of parameters, so any use of one is found now.
    bind_parameters(&mut filter, &[])?;
    Ok(Condition { filter })
}

impl Condition {
    /// True when the condition is exactly `true` for the document.
    pub fn matches<'a>(&self, row: impl Into<Row<'a>>) -> Result<bool, SqlError> {
        holds(Some(&self.filter), row.into())
    }
}

fn parse(
    text: &str,
    clauses: impl Fn(&mut Parser<'_>) -> Result<Source, SqlError>,
) -> Result<Option<Expression>, SqlError> {
    if text.len() > TEXT_SIZE_BYTES_MAX {
        return Err(SqlError::TooLong { size_bytes: text.len(), size_bytes_max: TEXT_SIZE_BYTES_MAX });
    }
    let mut source = clauses(&mut Parser::new(text))?;
    if let Some(filter) = &mut source.filter {
        resolve_identifiers(filter, &source.alias, text)?;
    }
    Ok(source.filter)
}

fn holds(filter: Option<&Expression>, row: Row<'_>) -> Result<bool, SqlError> {
    let Some(filter) = filter else { return Ok(true) };
    let row = match row {
        Row::Raw(document) => Datum::from_raw(RawValue::Object(document)),
        Row::Tree(value) => Datum::from_tree(value),
    };
    let functions = FunctionContext::default();
    let context = EvaluationContext::new(&functions, &|| false);
    crate::evaluate::holds(filter, &Scope::new(&context).with(0, row))
}
