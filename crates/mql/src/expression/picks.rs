//! `$firstN`, `$lastN`, `$minN`, `$maxN` over an array.

use super::arguments::{Signature, value_of};
use super::parse::At;
use super::tree::Expression;
use crate::error::{Result, fail};
use crate::order;
use crate::value::Value;

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    let signature = |operator| Signature {
        operator,
        names: &["input", "n"],
        required: &[5787907, 5787906],
        not_an_object: 5787900,
        unknown: 5787901,
    };
    match name {
        "$firstN" => signature("$firstN").call(operand, at, |_, values| {
            pick(values, |items, count| items.into_iter().take(count).collect())
        }),
        "$lastN" => signature("$lastN").call(operand, at, |_, values| {
            pick(values, |items, count| {
                let skipped = items.len().saturating_sub(count);
                items.into_iter().skip(skipped).collect()
            })
        }),
        "$minN" => signature("$minN")
            .call(operand, at, |_, values| pick(values, |items, n| extremes(items, n, false))),
        "$maxN" => signature("$maxN")
            .call(operand, at, |_, values| pick(values, |items, n| extremes(items, n, true))),
        _ => Ok(None),
    }
}

fn pick(values: &[Option<Value>], chosen: impl Fn(Vec<Value>, usize) -> Vec<Value>) -> Result<Value> {
    let count = count_argument(value_of(&values[1]))?;
    match value_of(&values[0]) {
        Value::Array(items) => Ok(Value::array(chosen(items.to_vec(), count))),
        other => fail!(5788200, "input must be an array, found {}", other.type_name()),
    }
}

/// How many values are wanted: a whole number above zero.
pub(crate) fn count_argument(value: &Value) -> Result<usize> {
    if !value.is_number() {
        fail!(5787902, "Value for 'n' must be of integral type, but found {value}");
    }
    let Some(count) = value.to_i64_exact() else {
        fail!(5787903, "Value for 'n' must be of integral type, but found {value}");
    };
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => fail!(5787908, "'n' must be greater than 0, found {count}"),
    }
}

fn extremes(items: Vec<Value>, count: usize, greatest: bool) -> Vec<Value> {
    let mut items: Vec<Value> = items.into_iter().filter(|item| !item.is_nullish()).collect();
    items.sort_by(|left, right| {
        let order = order::compare(left, right);
        if greatest { order.reverse() } else { order }
    });
    items.truncate(count);
    items
}
