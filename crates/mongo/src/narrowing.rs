//! Filters of sparse and partial indexes as the engine's narrowing rules.
//!
//! The engine enforces uniqueness, also for writes of other front ends, and knows the scalars of JSON. A filter beyond
//! these is refused for a unique index and ignored otherwise: an index changes results only through a hint.

use shardlake_model::{ItemRule, Narrowing, RuleScalar, ValueKind, ValueTest};
use shardlake_mql::kept_collation;
use shardlake_mql::write::stored_path;
use shardlake_mql::{COLLATION_DATA_VERSION, Collation, Document, Value};

use crate::failure::{Failure, Result};
use crate::meta::flag;

/// Error 303 for a filter that the engine cannot judge.
pub(crate) fn narrowing_of(index: &Document) -> Result<Option<Narrowing>> {
    Ok(collated(&kept_collation(index)?, rows_of(index)?))
}

/// Adds a collation's rules of comparison to the narrowing of a unique key. Under the simple collation the narrowing is unchanged.
pub(crate) fn collated(collation: &Collation, narrowing: Option<Narrowing>) -> Option<Narrowing> {
    let Some(rules) = collation.rules() else { return narrowing };
    let (rules, version) = (rules.text(), COLLATION_DATA_VERSION.to_owned());
    Some(Narrowing::Collated { rules, version, narrowing: narrowing.map(Box::new) })
}

fn rows_of(index: &Document) -> Result<Option<Narrowing>> {
    if let Some(filter) = index.get("partialFilterExpression").and_then(Value::as_document) {
        return Ok(Some(Narrowing::Where(rule_of(filter)?)));
    }
    Ok(flag(index, "sparse").then_some(Narrowing::Sparse))
}

fn rule_of(filter: &Document) -> Result<ItemRule> {
    let mut rules = Vec::new();
    for (name, value) in filter.iter() {
        match (&**name, value) {
            ("$and", Value::Array(parts)) => rules.extend(rules_of(parts)?),
            ("$or", Value::Array(parts)) => rules.push(ItemRule::Any(rules_of(parts)?)),
            (field, Value::Document(operators))
                if operators.first().is_some_and(|(name, _)| name.starts_with('$')) =>
            {
                for (operator, operand) in operators.iter() {
                    rules.push(operator_rule(field, operator, operand)?);
                }
            }
            (field, value) => rules.push(operator_rule(field, "$eq", value)?),
        }
    }
    Ok(ItemRule::All(rules))
}

fn rules_of(parts: &[Value]) -> Result<Vec<ItemRule>> {
    parts.iter().filter_map(Value::as_document).map(|part| rule_of(part)).collect()
}

fn operator_rule(field: &str, operator: &str, operand: &Value) -> Result<ItemRule> {
    let path = stored_path(field);
    if path.first().is_some_and(|first| first == "id") || path.iter().any(|part| is_number(part)) {
        return Err(refused(&format!("the path '{field}'")));
    }
    let at = |test| ItemRule::At { path: path.clone(), test };
    let compared = |test: fn(RuleScalar) -> ValueTest| -> Result<ValueTest> { Ok(test(scalar_of(operand)?)) };
    let test = match (operator, operand) {
        ("$exists", _) => ValueTest::Exists,
        ("$eq" | "$gte" | "$lte", Value::Null) => ValueTest::Null,
        ("$gt" | "$lt", Value::Null) => return Ok(ItemRule::Any(Vec::new())),
        ("$eq", _) => compared(ValueTest::Equal)?,
        ("$gt", _) => compared(ValueTest::Greater)?,
        ("$gte", _) => compared(ValueTest::AtLeast)?,
        ("$lt", _) => compared(ValueTest::Less)?,
        ("$lte", _) => compared(ValueTest::AtMost)?,
        ("$in", Value::Array(values)) => {
            let rules = values.iter().map(|value| operator_rule(field, "$eq", value));
            return Ok(ItemRule::Any(rules.collect::<Result<_>>()?));
        }
        ("$type", Value::Array(kinds)) => {
            let rules = kinds.iter().map(|kind| operator_rule(field, "$type", kind));
            return Ok(ItemRule::Any(rules.collect::<Result<_>>()?));
        }
        ("$type", kind) => ValueTest::Kind(kind_of(kind)?),
        (other, _) => return Err(refused(other)),
    };
    Ok(at(test))
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn scalar_of(operand: &Value) -> Result<RuleScalar> {
    Ok(match operand {
        Value::Bool(value) => RuleScalar::Bool(*value),
        Value::Int(value) => RuleScalar::Int(i64::from(*value)),
        Value::Long(value) => RuleScalar::Int(*value),
        Value::Double(value) if value.is_finite() => RuleScalar::Double(*value),
        Value::String(value) => RuleScalar::String(value.to_string()),
        other => return Err(refused(&format!("a value of type {}", other.type_name()))),
    })
}

fn kind_of(kind: &Value) -> Result<ValueKind> {
    let number = kind.to_i64_exact();
    Ok(match (kind.as_str(), number) {
        (Some("string"), _) | (_, Some(2)) => ValueKind::String,
        (Some("object"), _) | (_, Some(3)) => ValueKind::Document,
        (Some("array"), _) | (_, Some(4)) => ValueKind::Array,
        (Some("bool"), _) | (_, Some(8)) => ValueKind::Bool,
        (Some("null"), _) | (_, Some(10)) => ValueKind::Null,
        (Some("number"), _) => ValueKind::Number,
        (Some("double"), _) | (_, Some(1)) => ValueKind::Double,
        (Some("binData"), _) | (_, Some(5)) => ValueKind::Binary,
        (Some("objectId"), _) | (_, Some(7)) => ValueKind::ObjectId,
        (Some("date"), _) | (_, Some(9)) => ValueKind::Date,
        (Some("regex"), _) | (_, Some(11)) => ValueKind::Regex,
        (Some("timestamp"), _) | (_, Some(17)) => ValueKind::Timestamp,
        (Some("decimal"), _) | (_, Some(19)) => ValueKind::Decimal,
        (Some("minKey"), _) | (_, Some(-1)) => ValueKind::MinKey,
        (Some("maxKey"), _) | (_, Some(127)) => ValueKind::MaxKey,
        _ => return Err(refused(&format!("$type: {kind}"))),
    })
}

fn refused(what: &str) -> Failure {
    let words = format!(
        "{what} in the partialFilterExpression of a unique index is not supported: use $exists, $type of any type but int and long, and comparisons with strings, numbers, booleans and null"
    );
    Failure::new(303, words)
}
