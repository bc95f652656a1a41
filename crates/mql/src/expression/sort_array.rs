//! `$sortArray`.

use super::arguments::Signature;
use super::env::Env;
use super::operands::At;
use super::tree::{Evaluate, Expression};
use crate::error::{Result, fail};
use crate::order;
use crate::sort::SortPattern;
use crate::value::Value;
use shardlake_collation::Collation;

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    if name != "$sortArray" {
        return Ok(None);
    }
    let signature = Signature {
        operator: "$sortArray",
        names: &["input", "sortBy"],
        required: &[2942502, 2942503],
        not_an_object: 2942500,
        unknown: 2942501,
    };
    let named = signature.document(operand)?;
    let input = at.parse(&named.value("input"))?;
    let order = match named.value("sortBy") {
        Value::Document(pattern) => {
            if pattern.is_empty() {
                fail!(2942505, "$sortArray: the sort pattern must not be empty");
            }
            Order::Pattern(parse_pattern(&pattern, at.scope.collation())?)
        }
        value if value.is_number() => match value.to_f64() {
            Some(1.0) => Order::Whole { descending: false },
            Some(-1.0) => Order::Whole { descending: true },
            _ => fail!(2942506, "$sortArray: the sort direction must be 1 or -1, not {value}"),
        },
        other => {
            fail!(2942507, "$sortArray: the sort must be a number or a document, not {}", other.type_name())
        }
    };
    Ok(Some(Expression::special(SortArray { input, order, collation: at.scope.collation().clone() })))
}

fn parse_pattern(pattern: &crate::value::Document, collation: &Collation) -> Result<SortPattern> {
    for (name, value) in pattern.iter() {
        let direction = value.to_f64();
        if !value.is_number() || (direction != Some(1.0) && direction != Some(-1.0)) {
            fail!(2942505, "$sortArray: the direction of '{name}' must be 1 or -1");
        }
    }
    SortPattern::parse(pattern, collation)
}

enum Order {
    Whole { descending: bool },
    Pattern(SortPattern),
}

struct SortArray {
    input: Expression,
    order: Order,
    collation: Collation,
}

impl Evaluate for SortArray {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        let items = match self.input.evaluate(env)? {
            value if value.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => items,
            other => fail!(
                2942504,
                "The input argument to $sortArray must be an array, but was {}",
                other.type_name()
            ),
        };
        let mut items = items.to_vec();
        match &self.order {
            Order::Whole { descending } => items.sort_by(|left, right| {
                let order = order::compare_by(&self.collation, left, right);
                if *descending { order.reverse() } else { order }
            }),
            Order::Pattern(pattern) => items = pattern.sort_elements(items)?,
        }
        Ok(Value::array(items))
    }

    fn operands(&self) -> Vec<&Expression> {
        vec![&self.input]
    }
}
