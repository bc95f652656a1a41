//! Operators on a field, such as `{$gt: 3, $lt: 9}`.

use super::Node;
use super::bits::Bits;
use super::geo::GeoTest;
use super::leaf::{Comparison, Leaf};
use super::near::NEAR_NOT_ALLOWED;
use super::parse::parse_at;
use crate::decimal::Rounding;
use crate::error::{BAD_VALUE, Result, fail};
use crate::expression::Scope;
use crate::order;
use crate::pattern::Pattern;
use crate::value::{Document, Str, Value};
use crate::value_type;
use std::sync::Arc;

/// Whether a document states operators rather than a value.
pub(crate) fn is_operator_document(document: &Document) -> bool {
    document
        .first()
        .is_some_and(|(name, _)| name.starts_with('$') && !matches!(&**name, "$ref" | "$id" | "$db"))
}

/// The condition of a plain value.
pub(super) fn equality(value: &Value, scope: &Scope) -> Result<Leaf> {
    match value {
        Value::Regex(regex) => pattern(&regex.0, &regex.1),
        Value::Undefined => fail!(BAD_VALUE, "cannot compare to undefined"),
        value => Ok(Leaf::Compare(Comparison::Equal, value.clone(), scope.collation().clone())),
    }
}

/// Bytes of a pattern in a filter.
const PATTERN_BYTES_MAX: usize = 32_764;

fn pattern(text: &str, options: &str) -> Result<Leaf> {
    if text.len() > PATTERN_BYTES_MAX {
        fail!(51091, "Regular expression is invalid: it has more than {PATTERN_BYTES_MAX} bytes");
    }
    if text.contains('\0') {
        fail!(BAD_VALUE, "Regular expression cannot contain an embedded null byte");
    }
    if let Some(wrong) = options.chars().find(|option| !"imsxu".contains(*option)) {
        fail!(51108, "invalid flag in regex options: {wrong}");
    }
    match Pattern::compile(text, options) {
        Ok(compiled) => {
            let own = Value::Regex(Arc::new((text.to_owned(), options.to_owned())));
            Ok(Leaf::Regex(Arc::new(compiled), own))
        }
        Err(words) => fail!(51091, "Regular expression is invalid: {words}"),
    }
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

fn parse_in(name: &str, value: &Value, scope: &Scope) -> Result<Leaf> {
    let Value::Array(items) = value else { fail!(BAD_VALUE, "{name} needs an array") };
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for item in items.iter() {
        match item {
            Value::Regex(regex) => patterns.push(pattern(&regex.0, &regex.1)?),
            Value::Document(document) if is_operator_document(document) => {
                fail!(BAD_VALUE, "cannot nest $ under {name}")
            }
            Value::Undefined => fail!(BAD_VALUE, "InMatchExpression equality cannot be undefined"),
            item => values.push(order::collated(scope.collation(), item)?),
        }
    }
    values.sort_by(order::compare);
    Ok(Leaf::In(values, patterns, scope.collation().clone()))
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

fn parse_regex(value: &Value, operators: &Document) -> Result<Leaf> {
    let (text, own) = match value {
        Value::String(text) => (text.to_string(), String::new()),
        Value::Regex(regex) => (regex.0.clone(), regex.1.clone()),
        _ => fail!(BAD_VALUE, "$regex has to be a string"),
    };
    let options = match operators.get("$options") {
        None => own,
        Some(Value::String(options)) => {
            if !own.is_empty() {
                let is_first = operators.first().is_some_and(|(name, _)| &**name == "$options");
                let code = if is_first { 51074 } else { 51075 };
                fail!(code, "options set in both $regex and $options");
            }
            options.to_string()
        }
        Some(_) => fail!(BAD_VALUE, "$options has to be a string"),
    };
    pattern(&text, &options)
}

fn parse_type(value: &Value) -> Result<Leaf> {
    let items = match value {
        Value::Array(items) if items.is_empty() => fail!(9, "$type must match at least one type"),
        Value::Array(items) => &items[..],
        other => std::slice::from_ref(other),
    };
    let (mut types, mut numbers) = (Vec::new(), false);
    for item in items {
        match item {
            Value::String(name) if &**name == "number" => numbers = true,
            Value::String(name) => match value_type::number_of(name) {
                Some(number) => types.push(number),
                None => fail!(BAD_VALUE, "Unknown type name alias: {name}"),
            },
            item if item.is_number() => {
                match item.to_i32_exact().filter(|number| value_type::by_number(*number).is_some()) {
                    Some(number) => types.push(number),
                    None => fail!(BAD_VALUE, "Invalid numerical type code: {item}"),
                }
            }
            other => fail!(14, "type must be represented as a number or a string, not {}", other.type_name()),
        }
    }
    Ok(Leaf::Type(types, numbers))
}

fn parse_size(value: &Value) -> Result<Leaf> {
    if !value.is_number() {
        fail!(BAD_VALUE, "Failed to parse $size. Expected a number in: $size: {value}");
    }
    match value.to_i64_exact() {
        Some(size) if (0..=i64::from(i32::MAX)).contains(&size) => Ok(Leaf::Size(size)),
        Some(size) if size > 0 => {
            fail!(BAD_VALUE, "Failed to parse $size. Expected a 32-bit integer: $size: {size}")
        }
        Some(size) => {
            fail!(BAD_VALUE, "Failed to parse $size. Expected a non-negative number in: $size: {size}")
        }
        None => fail!(BAD_VALUE, "Failed to parse $size. Expected an integer: $size: {value}"),
    }
}

fn parse_modulo(value: &Value) -> Result<Leaf> {
    let Value::Array(items) = value else { fail!(BAD_VALUE, "malformed mod, needs to be an array") };
    let [divisor, rest] = &items[..] else {
        let words = if items.len() < 2 { "not enough" } else { "too many" };
        fail!(BAD_VALUE, "malformed mod, {words} elements");
    };
    let number = |value: &Value, what: &str| {
        let whole = match value {
            Value::Double(number) if !number.is_finite() => None,
            Value::Double(number) => crate::value::double_to_i64(number.trunc()),
            Value::Decimal(number) => {
                number.to_whole(Rounding::Down).to_integer().and_then(|number| i64::try_from(number).ok())
            }
            other => other.to_i64_exact(),
        };
        match whole {
            Some(number) => Ok(number),
            None => fail!(BAD_VALUE, "malformed mod, {what} is not a number: {value}"),
        }
    };
    let divisor = number(divisor, "divisor")?;
    if divisor == 0 {
        fail!(BAD_VALUE, "divisor cannot be 0");
    }
    Ok(Leaf::Modulo(divisor, number(rest, "remainder")?))
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
