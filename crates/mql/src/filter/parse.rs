//! Documents to filters: the members at the top, and operators on a field, such as `{$gt: 3, $lt: 9}`.

use super::bits::Bits;
use super::condition::{Comparison, Leaf, Node};
use super::geo::GeoTest;
use super::near::NEAR_NOT_ALLOWED;
use super::operators::{
    equality, is_operator_document, parse_in, parse_modulo, parse_regex, parse_size, parse_type, pattern,
};
use super::schema_parse;
use crate::collation::{collation_of, document_of_collation};
use crate::error::{BAD_VALUE, Result, error, fail};
use crate::expression::{self, Scope};
use crate::path::split_path;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;

/// A filter whose strings are compared by another collation than those around it. It stands for a partial index that a hint
/// names. Names in BSON have no null byte, so that no client can send it.
const BY_COLLATION: &str = "$_internalFilterByCollation\0";

/// A filter as a part of a filter under another collation.
pub fn by_collation(filter: &Document, collation: &Collation) -> Document {
    let simple = || Document::one("locale", "simple");
    let mut own = Document::one("collation", document_of_collation(collation).unwrap_or_else(simple));
    own.push("filter", Value::document(filter.clone()));
    Document::one(BY_COLLATION, own)
}

/// The name in a filter that is sent, which the parser refuses in a client's filter.
const BY_COLLATION_SENT: &str = "$_internalFilterByCollation";

/// A filter as BSON can hold it, see [`by_collation`].
pub(crate) fn encodable_filter(filter: &Document) -> Document {
    renamed(filter, BY_COLLATION, BY_COLLATION_SENT)
}

/// The filter of [`encodable_filter`].
pub(crate) fn received_filter(filter: &Document) -> Document {
    renamed(filter, BY_COLLATION_SENT, BY_COLLATION)
}

/// The places of such a part: the filter itself, and the parts of an `$and`.
fn renamed(filter: &Document, from: &str, to: &str) -> Document {
    let part = |value: &Value| match value {
        Value::Document(part) => Value::document(renamed(part, from, to)),
        other => other.clone(),
    };
    let member = |(name, value): (&Str, &Value)| match (&**name, value) {
        ("$and", Value::Array(parts)) => (name.clone(), Value::array(parts.iter().map(part).collect())),
        (own, value) if own == from => (to.into(), value.clone()),
        (_, value) => (name.clone(), value.clone()),
    };
    filter.iter().map(member).collect()
}

const INDEX_NOT_FOUND: i32 = 27;
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
        "$where" => fail!(BAD_VALUE, "{name} is not supported"),
        "$text" => {
            fail!(INDEX_NOT_FOUND, "text index required for $text query: text indexes are not supported")
        }
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

/// A node for each operator, on the values of a path.
pub(super) fn parse_operators(
    path: &[Str],
    operators: &Document,
    scope: &Scope,
    depth: usize,
) -> Result<Vec<Node>> {
    let wrap = |leaf: Leaf| Node::Path(path.to_vec(), leaf);
    parse_each(operators, scope, depth, &wrap)
}

type Wrap<'a> = &'a dyn Fn(Leaf) -> Node;

fn parse_each(operators: &Document, scope: &Scope, depth: usize, wrap: Wrap<'_>) -> Result<Vec<Node>> {
    let mut nodes = Vec::with_capacity(operators.len());
    let is_geo = |name: &str| matches!(name, "$geoWithin" | "$geoIntersects" | "$within");
    if operators.len() > 1
        && let Some((name, _)) = operators.iter().find(|(name, _)| is_geo(name))
    {
        fail!(
            BAD_VALUE,
            "{name} has to stand alone: name the field again, in an $and, for another condition"
        );
    }
    for (name, value) in operators.iter() {
        match &**name {
            "$options" => {
                if !operators.has("$regex") {
                    fail!(BAD_VALUE, "$options needs a $regex");
                }
            }
            "$comment" => {}
            "$regex" => nodes.push(wrap(parse_regex(value, operators)?)),
            _ => nodes.push(parse_one(name, value, scope, depth, wrap)?),
        }
    }
    Ok(nodes)
}

fn not(node: Node) -> Node {
    Node::Not(Box::new(node))
}

fn parse_one(name: &str, value: &Value, scope: &Scope, depth: usize, wrap: Wrap<'_>) -> Result<Node> {
    let compared = |comparison: Comparison, value: &Value| {
        Leaf::Compare(comparison, value.clone(), scope.collation().clone())
    };
    let ordered = |comparison: Comparison| match value {
        Value::Regex(_) => fail!(BAD_VALUE, "Can't have RegEx as arg to predicate over field"),
        Value::Undefined => fail!(BAD_VALUE, "cannot compare to undefined"),
        value => Ok(wrap(compared(comparison, value))),
    };
    Ok(match name {
        "$eq" => match value {
            Value::Undefined => fail!(BAD_VALUE, "cannot compare to undefined"),
            value => wrap(compared(Comparison::Equal, value)),
        },
        "$gt" => ordered(Comparison::Greater)?,
        "$gte" => ordered(Comparison::GreaterOrEqual)?,
        "$lt" => ordered(Comparison::Less)?,
        "$lte" => ordered(Comparison::LessOrEqual)?,
        "$ne" => match value {
            Value::Regex(_) => fail!(BAD_VALUE, "Can't have regex as arg to $ne."),
            Value::Undefined => fail!(BAD_VALUE, "cannot compare to undefined"),
            value => not(wrap(compared(Comparison::Equal, value))),
        },
        "$in" => wrap(parse_in(name, value, scope)?),
        "$nin" => not(wrap(parse_in(name, value, scope)?)),
        "$not" => parse_not(value, scope, depth, wrap)?,
        "$exists" => {
            let exists = wrap(Leaf::Exists);
            if value.is_true() { exists } else { not(exists) }
        }
        "$type" => wrap(parse_type(value)?),
        "$size" => wrap(parse_size(value)?),
        "$mod" => wrap(parse_modulo(value)?),
        "$all" => parse_all(value, scope, depth, wrap)?,
        "$elemMatch" => wrap(parse_element_match(value, scope, depth)?),
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => {
            wrap(Leaf::Bits(Bits::parse(name, value)?))
        }
        "$geoWithin" | "$geoIntersects" | "$within" => wrap(Leaf::Geo(GeoTest::parse(name, value)?)),
        "$near" | "$nearSphere" | "$geoNear" => {
            fail!(NEAR_NOT_ALLOWED, "$geoNear, $near, and $nearSphere are not allowed in this context")
        }
        "$where" | "$text" | "$expr" | "$jsonSchema" => fail!(BAD_VALUE, "unknown operator: {name}"),
        other => fail!(BAD_VALUE, "unknown operator: {other}"),
    })
}

fn parse_not(value: &Value, scope: &Scope, depth: usize, wrap: Wrap<'_>) -> Result<Node> {
    match value {
        Value::Regex(regex) => Ok(not(wrap(pattern(&regex.0, &regex.1)?))),
        Value::Document(operators) => {
            if operators.is_empty() {
                fail!(BAD_VALUE, "$not cannot be empty");
            }
            if !is_operator_document(operators) {
                fail!(BAD_VALUE, "unknown operator: {}", operators.first().map_or("", |(name, _)| name));
            }
            Ok(not(Node::And(parse_each(operators, scope, depth + 1, wrap)?)))
        }
        _ => fail!(BAD_VALUE, "$not needs a regex or a document"),
    }
}

fn parse_all(value: &Value, scope: &Scope, depth: usize, wrap: Wrap<'_>) -> Result<Node> {
    let Value::Array(items) = value else { fail!(BAD_VALUE, "$all needs an array") };
    if items.is_empty() {
        return Ok(wrap(Leaf::Never));
    }
    let is_element_match = |item: &Value| matches!(item, Value::Document(document) if document.first().is_some_and(|(name, _)| &**name == "$elemMatch"));
    let by_elements = is_element_match(&items[0]);
    let mut nodes = Vec::with_capacity(items.len());
    for item in items.iter() {
        if is_element_match(item) != by_elements {
            fail!(BAD_VALUE, "no $ expressions in $all");
        }
        match item {
            Value::Document(document) if by_elements => {
                if document.len() != 1 {
                    fail!(BAD_VALUE, "$all/$elemMatch has to be consistent");
                }
                nodes.push(wrap(parse_element_match(&document.value("$elemMatch"), scope, depth)?));
            }
            Value::Document(document) if is_operator_document(document) => {
                fail!(BAD_VALUE, "no $ expressions in $all")
            }
            item => nodes.push(wrap(equality(item, scope)?)),
        }
    }
    Ok(Node::And(nodes))
}

fn parse_element_match(value: &Value, scope: &Scope, depth: usize) -> Result<Leaf> {
    let Value::Document(conditions) = value else { fail!(BAD_VALUE, "$elemMatch needs an Object") };
    let logical = |name: &str| matches!(name, "$and" | "$or" | "$nor" | "$expr" | "$jsonSchema" | "$comment");
    let on_value = is_operator_document(conditions)
        && conditions.first().is_some_and(|(name, _)| !logical(name))
        && !conditions.iter().any(|(name, _)| matches!(&**name, "$and" | "$or" | "$nor"));
    if let Some((name @ ("$where" | "$expr" | "$jsonSchema"), _)) =
        conditions.first().map(|(name, value)| (&**name, value))
    {
        fail!(BAD_VALUE, "{name} can only be applied to the top-level document");
    }
    if on_value {
        let nodes = parse_each(conditions, scope, depth + 1, &Node::Element)?;
        return Ok(Leaf::ElementValue(Box::new(Node::And(nodes))));
    }
    Ok(Leaf::ElementDocument(Box::new(parse_at(conditions, scope, depth + 1)?)))
}
