//! Documents to filters: the members at the top.

use super::Node;
use super::operators::{equality, is_operator_document, parse_operators};
use super::schema_parse;
use crate::collation::{collation_of, document_of_collation};
use crate::error::{BAD_VALUE, Result, error, fail};
use crate::expression::{self, Scope};
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;

/// A filter whose strings are compared by another collation than those around it. It stands for a partial index that a hint
/// names, and is the server's own.
const BY_COLLATION: &str = "$_internalFilterByCollation";

/// A filter as a part of a filter under another collation.
pub fn by_collation(filter: &Document, collation: &Collation) -> Document {
    let simple = || Document::one("locale", "simple");
    let mut own = Document::one("collation", document_of_collation(collation).unwrap_or_else(simple));
    own.push("filter", Value::document(filter.clone()));
    Document::one(BY_COLLATION, own)
}

/// Levels of `$and`, `$or`, `$nor`, `$not`.
const DEPTH_MAX: usize = 100;

pub(super) fn parse(document: &Document, scope: &Scope) -> Result<Node> {
    parse_at(document, scope, 0)
}

pub(super) fn parse_at(document: &Document, scope: &Scope, depth: usize) -> Result<Node> {
    if depth > DEPTH_MAX {
        fail!(BAD_VALUE, "exceeded maximum query tree depth of {DEPTH_MAX}");
    }
    let mut nodes = Vec::with_capacity(document.len());
    for (name, value) in document.iter() {
        if name.starts_with('$') {
            nodes.extend(parse_top(name, value, scope, depth)?);
            continue;
        }
        let path = split_path(name);
        match value {
            Value::Document(operators) if is_operator_document(operators) => {
                nodes.extend(parse_operators(&path, operators, scope, depth)?);
            }
            value => nodes.push(Node::Path(path, equality(value, scope)?)),
        }
    }
    Ok(Node::all(nodes))
}

/// The parts of a path.
pub(super) fn split_path(path: &str) -> Vec<Str> {
    path.split('.').map(Str::from).collect()
}

fn parse_top(name: &str, value: &Value, scope: &Scope, depth: usize) -> Result<Option<Node>> {
    Ok(Some(match name {
        "$and" => Node::all(clauses(name, value, scope, depth)?),
        "$or" => Node::Or(clauses(name, value, scope, depth)?),
        "$nor" => Node::Not(Box::new(Node::Or(clauses(name, value, scope, depth)?))),
        "$comment" => return Ok(None),
        "$expr" => Node::Expression(expression::parse(value, scope)?),
        "$jsonSchema" => Node::Schema(Box::new(schema_parse::parse(value)?)),
        "$alwaysTrue" | "$alwaysFalse" => {
            if value.to_i64_exact() != Some(1) {
                fail!(9, "{name} must be an integer value of 1");
            }
            Node::Constant(name == "$alwaysTrue")
        }
        "$sampleRate" => match value.to_f64() {
            Some(rate) if (0.0..=1.0).contains(&rate) => Node::Sample(rate),
            Some(_) => fail!(BAD_VALUE, "numeric argument to $sampleRate must be in [0, 1]"),
            None => fail!(BAD_VALUE, "argument to $sampleRate must be a numeric type"),
        },
        BY_COLLATION => {
            let own = |name: &str| value.as_document().and_then(|own| own.get(name)?.as_document());
            let (Some(filter), Some(collation)) = (own("filter"), own("collation")) else {
                fail!(BAD_VALUE, "{name} must be an object with a filter and a collation");
            };
            let collation =
                collation_of(collation).map_err(|unsupported| error!(BAD_VALUE, "{}", unsupported.0))?;
            parse_at(filter, &scope.comparing_by(collation), depth + 1)?
        }
        "$where" | "$text" => fail!(BAD_VALUE, "{name} is not supported"),
        other => fail!(
            BAD_VALUE,
            "unknown top level operator: {other}. If you have a field name that starts with a '$' symbol, consider using $getField or $setField."
        ),
    }))
}

fn clauses(name: &str, value: &Value, scope: &Scope, depth: usize) -> Result<Vec<Node>> {
    let Value::Array(items) = value else { fail!(BAD_VALUE, "{name} argument must be an array") };
    if items.is_empty() {
        fail!(BAD_VALUE, "{name} argument must be a non-empty array");
    }
    let parse = |item: &Value| match item {
        Value::Document(clause) => parse_at(clause, scope, depth + 1),
        _ => fail!(BAD_VALUE, "{name} argument's entries must be objects"),
    };
    items.iter().map(parse).collect()
}
