//! Arrays as sets. Results are in the order of values.

use super::{Expression, MANY, Operator, between, exactly};
use crate::error::{Result, fail};
use crate::order::Key;
use crate::value::Value;
use std::collections::BTreeSet;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$setUnion" => between(0, MANY, |_, values| union(values)),
        "$setIntersection" => between(0, MANY, |_, values| intersection(values)),
        "$setDifference" => exactly(2, |_, values| difference(&values[0], &values[1])),
        "$setEquals" => between(0, MANY, |_, values| equals(values)),
        "$setIsSubset" => exactly(2, |_, values| is_subset(&values[0], &values[1])),
        "$anyElementTrue" => exactly(1, |_, values| any_true(&values[0])),
        "$allElementsTrue" => exactly(1, |_, values| all_true(&values[0])),
        _ => None,
    }
}

/// Of equal elements the first stays.
fn keys(items: &[Value]) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for item in items {
        keys.insert(Key(item.clone()));
    }
    keys
}

/// Refuses constants that are no arrays while `$setEquals` is parsed.
pub(super) fn check_constants(arguments: &[Expression]) -> Result<()> {
    for value in arguments.iter().filter_map(Expression::as_constant) {
        if !matches!(value, Value::Array(_)) && arguments.len() > 1 {
            fail!(
                5887502,
                "All operands of $setEquals must be arrays. One argument is of type: {}",
                value.type_name()
            );
        }
    }
    Ok(())
}

fn values(keys: BTreeSet<Key>) -> Value {
    Value::array(keys.into_iter().map(|key| key.0).collect())
}

fn union(arrays: &[Value]) -> Result<Value> {
    let mut all = BTreeSet::new();
    for array in arrays {
        match array {
            array if array.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => {
                for key in keys(items) {
                    all.insert(key);
                }
            }
            other => fail!(
                17043,
                "All operands of $setUnion must be arrays. One argument is of type: {}",
                other.type_name()
            ),
        }
    }
    Ok(values(all))
}

fn intersection(arrays: &[Value]) -> Result<Value> {
    let mut common: Option<BTreeSet<Key>> = None;
    for array in arrays {
        match array {
            array if array.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => {
                let own = keys(items);
                common = Some(match common {
                    None => own,
                    Some(common) => common.into_iter().filter(|key| own.contains(key)).collect(),
                });
            }
            other => fail!(
                17047,
                "All operands of $setIntersection must be arrays. One argument is of type: {}",
                other.type_name()
            ),
        }
    }
    Ok(values(common.unwrap_or_default()))
}

fn difference(left: &Value, right: &Value) -> Result<Value> {
    if left.is_nullish() || right.is_nullish() {
        return Ok(Value::Null);
    }
    let Value::Array(items) = left else {
        fail!(
            17048,
            "both operands of $setDifference must be arrays. First argument is of type: {}",
            left.type_name()
        );
    };
    let Value::Array(others) = right else {
        fail!(
            17049,
            "both operands of $setDifference must be arrays. Second argument is of type: {}",
            right.type_name()
        );
    };
    let mut seen = keys(others);
    Ok(Value::array(items.iter().filter(|item| seen.insert(Key((*item).clone()))).cloned().collect()))
}

fn equals(arrays: &[Value]) -> Result<Value> {
    if arrays.len() < 2 {
        fail!(17045, "$setEquals needs at least two arguments had: {}", arrays.len());
    }
    let mut sets = Vec::new();
    for array in arrays {
        match array {
            Value::Array(items) => sets.push(keys(items)),
            other => fail!(
                17044,
                "All operands of $setEquals must be arrays. One argument is of type: {}",
                other.type_name()
            ),
        }
    }
    Ok(Value::Bool(sets.windows(2).all(|pair| pair[0] == pair[1])))
}

fn is_subset(left: &Value, right: &Value) -> Result<Value> {
    let Value::Array(items) = left else {
        fail!(
            17046,
            "both operands of $setIsSubset must be arrays. First argument is of type: {}",
            left.type_name()
        );
    };
    let Value::Array(others) = right else {
        fail!(
            17042,
            "both operands of $setIsSubset must be arrays. Second argument is of type: {}",
            right.type_name()
        );
    };
    let others = keys(others);
    Ok(Value::Bool(items.iter().all(|item| others.contains(&Key(item.clone())))))
}

fn any_true(value: &Value) -> Result<Value> {
    match value {
        Value::Array(items) => Ok(Value::Bool(items.iter().any(Value::is_true))),
        other => fail!(17041, "$anyElementTrue's argument must be an array, but is {}", other.type_name()),
    }
}

fn all_true(value: &Value) -> Result<Value> {
    match value {
        Value::Array(items) => Ok(Value::Bool(items.iter().all(Value::is_true))),
        other => fail!(17040, "$allElementsTrue's argument must be an array, but is {}", other.type_name()),
    }
}
