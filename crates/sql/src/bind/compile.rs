//! Compiles the computed properties of a container from their names and texts.

use shardlake_document::is_system_property;

use super::binder::{Binder, Environment, Level};
use super::computed::{ComputedProperties, ComputedProperty};
use crate::bound::{BoundSource, Expression, Projection};
use crate::error::SqlError;
use crate::syntax::ast::{self, Collection, Selection, Source};
use crate::syntax::parse;
use crate::value::context::FunctionContext;
use crate::value::meter::Meter;

/// Limit per container.
const COMPUTED_PROPERTIES_MAX: usize = 20;

impl ComputedProperties {
    /// From the names and query texts of a container's definition.
    pub fn compile(list: &[(String, String)]) -> Result<Self, SqlError> {
        if list.len() > COMPUTED_PROPERTIES_MAX {
            let reason = format!("a container has at most {COMPUTED_PROPERTIES_MAX} of them");
            return Err(invalid(&list[COMPUTED_PROPERTIES_MAX].0, &reason));
        }
        let mut compiled = ComputedProperties::default();
        for (name, text) in list {
            check_name(name, &compiled)?;
            let expression = compile(name, text)?;
            compiled.list.push(ComputedProperty { name: name.clone(), expression });
        }
        for property in &compiled.list {
            if let Some(other) = compiled.names().find(|other| names_property(&property.expression, other)) {
                return Err(invalid(&property.name, &format!("it uses the computed property '{other}'")));
            }
        }
        Ok(compiled)
    }
}

fn invalid(name: &str, reason: &str) -> SqlError {
    SqlError::ComputedProperty { name: name.to_string(), reason: reason.to_string() }
}

fn check_name(name: &str, others: &ComputedProperties) -> Result<(), SqlError> {
    if name.is_empty() || name == "id" || is_system_property(name) {
        return Err(invalid(name, "the name cannot be used"));
    }
    match others.names().any(|other| other == name) {
        true => Err(invalid(name, "the name is used twice")),
        false => Ok(()),
    }
}

/// `SELECT VALUE expression FROM c`, and nothing else.
fn compile(name: &str, text: &str) -> Result<Expression, SqlError> {
    let query = parse(text)?;
    let reads_items = matches!(
        &query.from,
        Some(Collection::Aliased { source: Source::Path { path, .. }, .. }) if path.is_empty()
    );
    let has_other_clauses = query.select.distinct
        || query.select.top.is_some()
        || query.filter.is_some()
        || !query.group_by.is_empty()
        || query.order_by.is_some()
        || query.offset_limit.is_some();
    let Selection::Value(selected) = &query.select.selection else {
        return Err(invalid(name, "the query has no SELECT VALUE"));
    };
    if !reads_items || has_other_clauses {
        return Err(invalid(name, "the query is not of the form SELECT VALUE expression FROM c"));
    }
    if let Some(part) = forbidden(selected) {
        return Err(invalid(name, &format!("{part} cannot be used")));
    }
    bind_alone(text, &query)
}

fn bind_alone(text: &str, query: &ast::Query) -> Result<Expression, SqlError> {
    let functions = FunctionContext::default();
    let none = ComputedProperties::default();
    let environment = Environment {
        parameters: &[],
        computed: &none,
        functions: &functions,
        scripts: None,
        meter: &Meter::default(),
        is_own: true,
    };
    let mut binder = Binder::new(text, &environment);
    let bound = binder.query(query, Level::Outermost);
    let bound = binder.finish(bound)?;
    debug_assert_eq!(bound.sources, [BoundSource::Item]);
    match bound.projection {
        Projection::Value(expression) if bound.grouping.is_none() => Ok(expression),
        _ => Err(SqlError::AggregateComposition),
    }
}

/// The first forbidden part of a definition.
fn forbidden(expression: &ast::Expression) -> Option<String> {
    const SPATIAL: [&str; 6] =
        ["STDISTANCE", "STWITHIN", "STINTERSECTS", "STAREA", "STISVALID", "STISVALIDDETAILED"];
    const CHANGING: [&str; 2] = ["RAND", "DOCUMENTID"];
    const AGGREGATES: [&str; 8] = ["AVG", "COUNT", "COUNTIF", "MAKELIST", "MAKESET", "MAX", "MIN", "SUM"];
    match expression {
        ast::Expression::Subquery { .. } => return Some("a subquery".into()),
        ast::Expression::UserDefined { .. } => return Some("a user-defined function".into()),
        ast::Expression::Parameter(_) => return Some("a parameter".into()),
        ast::Expression::Call { name, .. } => {
            let plain = name.replace('_', "").to_ascii_uppercase();
            let is_current = plain.starts_with("GETCURRENT") || plain == "NOW" || plain == "AGO";
            if is_current
                || [&SPATIAL[..], &CHANGING, &AGGREGATES].iter().any(|names| names.contains(&plain.as_str()))
            {
                return Some(format!("the function {}", name.to_ascii_uppercase()));
            }
        }
        _ => {}
    }
    expression.children().into_iter().find_map(forbidden)
}

fn names_property(expression: &Expression, property: &str) -> bool {
    match expression {
        Expression::Property { of, name } if **of == Expression::Variable(0) => name == property,
        other => other.children().into_iter().any(|child| names_property(child, property)),
    }
}
