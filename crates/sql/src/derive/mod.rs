//! Queries that define global secondary indexes: the rows that an index holds for an item.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | a definition, bound to its source; its rows |
//! | `refusals.rs` | parts of the language that a definition may not use, with their places |
//! | `walk.rs` | all expressions of a query, those of subqueries included |
//! | `row.rs` | a row's id and members |
//!
//! A row is a function of one version of one item, so the same version gives the same bytes: after a restart, a
//! rebuild or a restore. The language is that of queries, so an index holds the rows of its query over the source.
//!
//! ```text
//! SELECT c.email FROM c                      {"id":"1","email":"e"}      → {"id":"<hash>","_id":"1","email":"e"}
//! SELECT i.sku FROM c JOIN i IN c.items      {"id":"1","items":[…2…]}    → "<hash>.0" and "<hash>.1"
//! ```
//!
//! Nothing here reads storage or knows where rows are stored.

mod refusals;
mod row;
#[cfg(test)]
mod tests;
mod walk;

use std::ops::ControlFlow::Continue;

use shardlake_document::{Body, DocumentError, ItemView};
use shardlake_model::{INDEX_DEFINITION_BYTES_MAX, PartitionKey};

use crate::bind::{self, ComputedProperties, Environment, member_names};
use crate::bound::{BoundQuery, BoundSource, Expression, Projection};
use crate::error::{Location, SqlError};
use crate::evaluate::Scope;
use crate::evaluate::rows::for_each_result;
use crate::syntax::ast::{self, Selection};
use crate::syntax::parse;
use crate::value::context::{EvaluationContext, FunctionContext, GeometryKind};
use crate::value::meter::Meter;

/// Members of a row, without `id` and `_id`.
pub const OUTPUTS_MAX: usize = 100;
/// Rows of one item.
pub const ROWS_MAX: usize = 100;

/// The part of the language that definitions may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    Shardlake,
    /// Only the part that the reference documents.
    Strict,
}

/// The source of an index, as far as its rows depend on it.
#[derive(Debug, Clone, Default)]
pub struct DeriveSource<'s> {
    pub computed: Option<&'s ComputedProperties>,
    pub geometry: GeometryKind,
}

/// Reason why a text defines no index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place.map_or_else(String::new, |place| format!(" (characters {} to {})", place.start, place.end)))]
pub struct DeriveError {
    pub message: String,
    /// Part of the definition's text.
    pub place: Option<Location>,
    /// A later version of this server may accept it.
    pub is_not_yet: bool,
}

impl From<SqlError> for DeriveError {
    fn from(error: SqlError) -> Self {
        let is_not_yet = matches!(error, SqlError::Unsupported { .. });
        DeriveError { place: error.location(), message: error.to_string(), is_not_yet }
    }
}

impl From<DeriveError> for shardlake_model::Error {
    fn from(error: DeriveError) -> Self {
        let text = format!("the definition of the index: {error}; nothing was done");
        match error.is_not_yet {
            true => shardlake_model::Error::unsupported(text),
            false => shardlake_model::Error::bad_request(text),
        }
    }
}

/// Reason why an item has no rows although its definition has.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RowError {
    #[error("the item has more than {ROWS_MAX} rows in the index")]
    TooManyRows,
    #[error("{0}")]
    Evaluation(SqlError),
    #[error("{0}")]
    Document(DocumentError),
    #[error("the item has no id")]
    NoId,
}

/// A row of an index, without its system properties.
#[derive(Debug, Clone, PartialEq)]
pub struct DerivedRow {
    /// Place among the rows of its item, from 0.
    pub number: u32,
    pub id: String,
    /// With `id` and `_id`, in the form in which items are stored.
    pub body: Body,
}

/// A definition that is ready to make rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Derivation {
    query: BoundQuery,
    geometry: GeometryKind,
    /// `None` for `SELECT *`, whose rows have the members of their items.
    outputs: Option<Vec<String>>,
    is_of_array: bool,
    has_filter: bool,
}

/// Binds a definition to its source.
pub fn derive(text: &str, source: &DeriveSource<'_>, dialect: Dialect) -> Result<Derivation, DeriveError> {
    if text.len() > INDEX_DEFINITION_BYTES_MAX {
        return Err(DeriveError {
            message: format!("the text has {} bytes: use at most {INDEX_DEFINITION_BYTES_MAX}", text.len()),
            place: None,
            is_not_yet: false,
        });
    }
    let tree = parse(text)?;
    refusals::check(text, &tree, dialect)?;
    let (none, functions) = (ComputedProperties::default(), FunctionContext::default());
    let functions = FunctionContext { geometry: source.geometry, ..functions };
    let environment = Environment {
        parameters: &[],
        computed: source.computed.unwrap_or(&none),
        functions: &functions,
        scripts: None,
        meter: &Meter::default(),
        is_own: false,
    };
    let query = bind::bind(text, &tree, &environment)?;
    if functions.has_told_time.get() {
        return Err(refusals::depends_on_time());
    }
    assert!(
        query.sources.first() == Some(&BoundSource::Item) && query.grouping.is_none(),
        "only rows of the source's items pass the refusals"
    );
    Ok(Derivation {
        outputs: outputs_of(&tree),
        is_of_array: query.sources.len() > 1,
        has_filter: tree.filter.is_some(),
        geometry: source.geometry,
        query,
    })
}

/// Names of the members of rows; `None` for those of the items.
fn outputs_of(tree: &ast::Query) -> Option<Vec<String>> {
    match &tree.select.selection {
        Selection::All => None,
        Selection::Items(items) => Some(member_names(items)),
        Selection::Value(ast::Expression::Object { members, .. }) => {
            Some(members.iter().map(|(name, _)| name.clone()).collect())
        }
        Selection::Value(_) => unreachable!("only objects pass the refusals"),
    }
}

impl Derivation {
    /// The rows of an item with its partition key, in their order. They are the same for each look at one version.
    pub fn rows(&self, item: &ItemView<'_>, key: &PartitionKey) -> Result<Vec<DerivedRow>, RowError> {
        let functions = FunctionContext { geometry: self.geometry, ..FunctionContext::default() };
        let meter = Meter::default();
        meter.begin_item();
        let context = EvaluationContext::new(&functions, &|| false, &meter);
        let mut values = Vec::new();
        let step = for_each_result(&self.query, &Scope::of_item(&context, item), &mut |row| {
            values.push(row.into_value());
            // One too many shows that there are too many.
            Ok(if values.len() > ROWS_MAX { std::ops::ControlFlow::Break(()) } else { Continue(()) })
        });
        let _ = step.map_err(RowError::Evaluation)?;
        match values.len() {
            0 => Ok(Vec::new()),
            1..=ROWS_MAX => row::rows_of(item, key, values, self.is_of_array),
            _ => Err(RowError::TooManyRows),
        }
    }

    /// Whether an item may have several rows, whose ids have a number then.
    pub fn is_of_array(&self) -> bool {
        self.is_of_array
    }

    /// Whether each item of the source has one row, so that clients may query the index in the source's place.
    pub fn replaces_source(&self) -> bool {
        !self.is_of_array && !self.has_filter
    }

    /// Names of the members of rows, without `id` and `_id`; `None` where rows have the members of their items.
    pub fn outputs(&self) -> Option<&[String]> {
        self.outputs.as_deref()
    }

    /// Whether a row may have a member at this path.
    pub fn may_have<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let Some(first) = path.first().map(AsRef::as_ref) else { return false };
        let Some(outputs) = &self.outputs else { return true };
        match first {
            "id" | "_id" => path.len() == 1,
            name => outputs.iter().any(|output| output == name),
        }
    }

    /// The path in the source of a path in rows, where rows copy it from there unchanged.
    pub fn source_path<S: AsRef<str>>(&self, path: &[S]) -> Option<Vec<String>> {
        let own = |path: &[S]| path.iter().map(|name| name.as_ref().to_owned()).collect::<Vec<_>>();
        let (first, rest) = path.split_first()?;
        match (first.as_ref(), &self.query.projection) {
            ("_id", _) if rest.is_empty() => Some(vec!["id".into()]),
            ("id" | "_id", _) => None,
            (_, Projection::All(_)) => Some(own(path)),
            (name, Projection::Object(members) | Projection::Value(Expression::Object(members))) => {
                let (_, expression) = members.iter().find(|(member, _)| member == name)?;
                let mut source = item_path(expression)?;
                source.extend(own(rest));
                Some(source)
            }
            _ => None,
        }
    }
}

/// The path of an expression that is one into the item.
fn item_path(expression: &Expression) -> Option<Vec<String>> {
    match expression {
        Expression::Variable(0) => Some(Vec::new()),
        Expression::Property { of, name } => {
            let mut path = item_path(of)?;
            path.push(name.clone());
            Some(path)
        }
        _ => None,
    }
}
