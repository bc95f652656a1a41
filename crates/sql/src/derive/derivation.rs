//! A definition, bound to its source; its rows.

use std::ops::ControlFlow::{Break, Continue};

use shardlake_document::ItemView;
use shardlake_model::{INDEX_DEFINITION_BYTES_MAX, PartitionKey};

use super::types::{DeriveError, DeriveSource, DerivedRow, Dialect, RESERVED_IN_GROUPS, ROWS_MAX, RowError};
use super::{refusals, row};
use crate::bind::{self, ComputedProperties, Environment, member_names};
use crate::bound::{BoundQuery, BoundSource, Expression, Grouping, Projection};
use crate::evaluate::Scope;
use crate::evaluate::rows::for_each_result;
use crate::syntax::ast::{self, Selection};
use crate::syntax::parse;
use crate::value::context::{EvaluationContext, FunctionContext, GeometryKind};
use crate::value::meter::Meter;

/// A definition that is ready to make rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Derivation {
    pub(super) query: BoundQuery,
    pub(super) geometry: GeometryKind,
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
    assert_eq!(query.sources.first(), Some(&BoundSource::Item), "rows come from the source's items");
    let has_keys = |grouping: &Grouping| !grouping.keys.is_empty();
    assert!(query.grouping.as_ref().is_none_or(has_keys), "groups without keys do not pass the refusals");
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
    /// The rows of an item with its partition key, in their order. They are the same for each look at one version. Not for
    /// definitions with groups.
    pub fn rows(&self, item: &ItemView<'_>, key: &PartitionKey) -> Result<Vec<DerivedRow>, RowError> {
        assert!(!self.is_grouped(), "rows of groups are of several items");
        let functions = FunctionContext { geometry: self.geometry, ..FunctionContext::default() };
        let meter = Meter::default();
        meter.begin_item();
        let context = EvaluationContext::new(&functions, &|| false, &meter);
        let mut values = Vec::new();
        let step = for_each_result(&self.query, &Scope::of_item(&context, item), &mut |row| {
            values.push(row.into_value());
            // One too many shows that there are too many.
            Ok(if values.len() > ROWS_MAX { Break(()) } else { Continue(()) })
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
        !self.is_of_array && !self.has_filter && !self.is_grouped()
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
            "id" => path.len() == 1,
            reserved if self.is_grouped() && RESERVED_IN_GROUPS.contains(&reserved) => false,
            "_id" => path.len() == 1,
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
pub(super) fn item_path(expression: &Expression) -> Option<Vec<String>> {
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
