//! `$bucket`: a `$group` by ranges.

use super::group::{Group, GroupId, parse_output};
use super::options::Options;
use crate::error::{Result, error, fail};
use crate::expression::{Expression, Scope, parse as parse_expression};
use crate::order;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;

/// The outputs that buckets have where none are given.
pub(super) fn counted() -> Document {
    Document::one("count", Value::document(Document::one("$sum", Value::Int(1))))
}

/// Whether a value is a path or an expression in an object.
pub(super) fn is_expression(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with('$'),
        Value::Document(document) => document.first().is_some_and(|(name, _)| name.starts_with('$')),
        _ => false,
    }
}

pub(super) fn parse_outputs(
    document: &Document,
    scope: &Scope,
) -> Result<Vec<(Str, crate::accumulator::Accumulator)>> {
    let mut outputs = Vec::with_capacity(document.len());
    for (name, value) in document.iter() {
        match &**name {
            "_id" => fail!(15948, "the output of buckets may not name _id"),
            name if name.contains('.') => fail!(40235, "The field name '{name}' cannot contain '.'"),
            name if name.starts_with('$') => {
                fail!(40236, "The field name '{name}' cannot be an operator name")
            }
            _ => {}
        }
        outputs.push((name.clone(), parse_output(name, value, scope)?));
    }
    Ok(outputs)
}

fn constant(value: &Value, scope: &Scope, code: i32) -> Result<Value> {
    let parsed = parse_expression(value, scope)?;
    parsed.as_constant().cloned().ok_or_else(|| {
        error!(code, "the $bucket 'boundaries' and 'default' must be constant values: {value}")
    })
}

pub(super) fn parse_bucket(options: &Options<'_>, scope: &Scope) -> Result<Group> {
    let group_by = options.value("groupBy");
    if !is_expression(group_by) {
        fail!(40202, "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression");
    }
    let boundaries = options.items("boundaries").unwrap_or_default();
    let boundaries =
        boundaries.iter().map(|item| constant(item, scope, 40191)).collect::<Result<Vec<_>>>()?;
    let default = options.get("default").map(|value| constant(value, scope, 40195)).transpose()?;
    let output = options.inner("output").map_or_else(counted, |outputs| Document::clone(outputs));
    check_boundaries(&boundaries, default.as_ref(), scope.collation())?;
    Ok(Group {
        id: GroupId::Value(place(group_by, &boundaries, default, scope)?),
        outputs: parse_outputs(&output, scope)?,
        sorted: true,
        collation: scope.collation().clone(),
    })
}

fn check_boundaries(boundaries: &[Value], default: Option<&Value>, collation: &Collation) -> Result<()> {
    let compare = |left: &Value, right: &Value| order::compare_by(collation, left, right);
    let [low, .., high] = boundaries else {
        fail!(40192, "The $bucket 'boundaries' field must have at least 2 values");
    };
    for pair in boundaries.windows(2) {
        if order::class(&pair[0]) != order::class(&pair[1]) {
            fail!(40193, "All values in the 'boundaries' option to $bucket must have the same type");
        }
        if compare(&pair[0], &pair[1]).is_ge() {
            fail!(40194, "The 'boundaries' option to $bucket must be sorted in ascending order");
        }
    }
    if default.is_some_and(|default| compare(default, low).is_ge() && compare(default, high).is_lt()) {
        fail!(
            40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary"
        );
    }
    Ok(())
}

/// The lower boundary of a value's bucket, as an expression.
fn place(
    group_by: &Value,
    boundaries: &[Value],
    default: Option<Value>,
    scope: &Scope,
) -> Result<Expression> {
    let literal = |value: &Value| Value::document(Document::one("$literal", value.clone()));
    let call =
        |name: &str, arguments: Vec<Value>| Value::document(Document::one(name, Value::array(arguments)));
    let branches = boundaries.windows(2).map(|pair| {
        let low = call("$gte", vec![group_by.clone(), literal(&pair[0])]);
        let high = call("$lt", vec![group_by.clone(), literal(&pair[1])]);
        let mut branch = Document::one("case", call("$and", vec![low, high]));
        branch.push("then", literal(&pair[0]));
        Value::document(branch)
    });
    let mut switch = Document::one("branches", Value::array(branches.collect()));
    if let Some(default) = default {
        switch.push("default", literal(&default));
    }
    parse_expression(&Value::document(Document::one("$switch", Value::document(switch))), scope)
}
