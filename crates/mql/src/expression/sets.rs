//! Arrays as sets. Results are in the order of values.

use super::operator::{MANY, Operator, comparing, exactly};
use super::tree::Expression;
use crate::error::{Result, fail};
use crate::order::Key;
use crate::value::Value;
use shardlake_collation::Collation;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$setUnion" => comparing(0, MANY, union),
        "$setIntersection" => comparing(0, MANY, intersection),
        "$setDifference" => comparing(2, 2, |by, values| difference(by, &values[0], &values[1])),
        "$setEquals" => comparing(0, MANY, equals),
        "$setIsSubset" => comparing(2, 2, |by, values| is_subset(by, &values[0], &values[1])),
        "$anyElementTrue" => exactly(1, |_, values| any_true(&values[0])),
        "$allElementsTrue" => exactly(1, |_, values| all_true(&values[0])),
        _ => None,
    }
}

/// Elements by their keys. Of equal elements the first stays.
type Set = BTreeMap<Key, Value>;

fn set_of(collation: &Collation, items: &[Value]) -> Result<Set> {
    let mut set = Set::new();
    add(collation, items, &mut set)?;
    Ok(set)
}

fn add(collation: &Collation, items: &[Value], set: &mut Set) -> Result<()> {
    for item in items {
        set.entry(Key::by(collation, item)?).or_insert_with(|| item.clone());
    }
    Ok(())
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

fn values(set: Set) -> Value {
    Value::array(set.into_values().collect())
}

fn union(collation: &Collation, arrays: &[Value]) -> Result<Value> {
    let mut all = Set::new();
    for array in arrays {
        match array {
            array if array.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => add(collation, items, &mut all)?,
            other => fail!(
                17043,
                "All operands of $setUnion must be arrays. One argument is of type: {}",
                other.type_name()
            ),
        }
    }
    Ok(values(all))
}

fn intersection(collation: &Collation, arrays: &[Value]) -> Result<Value> {
    let mut common: Option<Set> = None;
    for array in arrays {
        match array {
            array if array.is_nullish() => return Ok(Value::Null),
            Value::Array(items) => {
                let own = set_of(collation, items)?;
                common = Some(match common {
                    None => own,
                    Some(common) => common.into_iter().filter(|(key, _)| own.contains_key(key)).collect(),
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

fn difference(collation: &Collation, left: &Value, right: &Value) -> Result<Value> {
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
    let mut seen: BTreeSet<Key> =
        others.iter().map(|item| Key::by(collation, item)).collect::<Result<_>>()?;
    let mut left = Vec::new();
    for item in items.iter() {
        if seen.insert(Key::by(collation, item)?) {
            left.push(item.clone());
        }
    }
    Ok(Value::array(left))
}

fn equals(collation: &Collation, arrays: &[Value]) -> Result<Value> {
    if arrays.len() < 2 {
        fail!(17045, "$setEquals needs at least two arguments had: {}", arrays.len());
    }
    let mut sets = Vec::new();
    for array in arrays {
        match array {
            Value::Array(items) => sets.push(set_of(collation, items)?),
            other => fail!(
                17044,
                "All operands of $setEquals must be arrays. One argument is of type: {}",
                other.type_name()
            ),
        }
    }
    Ok(Value::Bool(sets.windows(2).all(|pair| pair[0].keys().eq(pair[1].keys()))))
}

fn is_subset(collation: &Collation, left: &Value, right: &Value) -> Result<Value> {
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
    let others = set_of(collation, others)?;
    for item in items.iter() {
        if !others.contains_key(&Key::by(collation, item)?) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
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
