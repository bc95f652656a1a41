//! `$firstN`, `$lastN`, `$minN`, `$maxN` over an array.

use super::arguments::{Signature, value_of};
use super::env::Env;
use super::operands::At;
use super::tree::{Evaluate, Expression};
use crate::error::{Result, fail};
use crate::order;
use crate::value::Value;
use shardlake_collation::Collation;

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
        "$minN" => Extremes::parse(&signature("$minN"), operand, at).map(Some),
        "$maxN" => Extremes::parse(&signature("$maxN"), operand, at).map(Some),
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

/// `$minN` and `$maxN`.
struct Extremes {
    arguments: Vec<Option<Expression>>,
    greatest: bool,
    collation: Collation,
}

impl Extremes {
    fn parse(signature: &Signature, operand: &Value, at: &At<'_>) -> Result<Expression> {
        let arguments = signature.parse(operand, at)?;
        let (greatest, collation) = (signature.operator == "$maxN", at.scope.collation().clone());
        Ok(Expression::special(Extremes { arguments, greatest, collation }))
    }

    fn chosen(&self, items: Vec<Value>, count: usize) -> Vec<Value> {
        let mut items: Vec<Value> = items.into_iter().filter(|item| !item.is_nullish()).collect();
        items.sort_by(|left, right| {
            let order = order::compare_by(&self.collation, left, right);
            if self.greatest { order.reverse() } else { order }
        });
        items.truncate(count);
        items
    }
}

impl Evaluate for Extremes {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let value = |item: &Option<Expression>| item.as_ref().map(|item| item.evaluate(env)).transpose();
        let values: Result<Vec<Option<Value>>> = self.arguments.iter().map(value).collect();
        pick(&values?, |items, count| self.chosen(items, count))
    }

    fn operands(&self) -> Vec<&Expression> {
        self.arguments.iter().flatten().collect()
    }
}
