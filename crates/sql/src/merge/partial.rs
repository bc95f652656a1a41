//! Partial aggregates of partitions (wire.md §10.1), and their merge: `{"item": …}`, with a sum and a count
//! for averages, and with a second member, the count of values, for extremes.
//!
//! A missing item is a partial result without a value. For sums it means that a value was not a number; for
//! extremes with a count, that a value was an array or an object. Both leave the whole without a value, too.

use std::collections::HashSet;

use shardlake_document::{Number, Value, compare};

use crate::error::SqlError;
use crate::value::aggregate::{AggregateFunction, identity};
use crate::value::arithmetic::number_value;
use crate::value::datum::value_size;

pub(super) enum Partial {
    Count(i64),
    /// `None` once a value was not a number.
    Sum(Option<f64>),
    Average {
        sum: Option<f64>,
        count: i64,
    },
    Extreme {
        largest: bool,
        value: Option<Value>,
        poisoned: bool,
    },
    /// `seen` holds the identities of a set's elements.
    List {
        elements: Vec<Value>,
        seen: Option<HashSet<Vec<u8>>>,
        size_bytes: usize,
    },
}

impl Partial {
    pub fn new(function: AggregateFunction) -> Partial {
        match function {
            AggregateFunction::Count | AggregateFunction::CountIf => Partial::Count(0),
            AggregateFunction::Sum => Partial::Sum(Some(0.0)),
            AggregateFunction::Average => Partial::Average { sum: Some(0.0), count: 0 },
            AggregateFunction::Min => Partial::Extreme { largest: false, value: None, poisoned: false },
            AggregateFunction::Max => Partial::Extreme { largest: true, value: None, poisoned: false },
            AggregateFunction::MakeList => Partial::List { elements: vec![], seen: None, size_bytes: 0 },
            AggregateFunction::MakeSet => {
                Partial::List { elements: vec![], seen: Some(HashSet::new()), size_bytes: 0 }
            }
        }
    }

    /// `partial` is the object with the `item`.
    pub fn add(&mut self, partial: &Value) -> Result<(), SqlError> {
        let item = partial.get("item");
        match self {
            Partial::Count(count) => *count = count.saturating_add(integer(item)?),
            Partial::Sum(sum) => *sum = plus(*sum, item)?,
            Partial::Average { sum, count } => {
                let item = item.ok_or(SqlError::UnmergeableRow)?;
                *sum = plus(*sum, item.get("sum"))?;
                *count = count.saturating_add(integer(item.get("count"))?);
            }
            Partial::Extreme { largest, value, poisoned } => {
                let count = partial.get("item2").and_then(|item2| item2.get("count"));
                match item {
                    _ if integer(count)? == 0 => {}
                    Some(item) => keep_extreme(value, item, *largest),
                    None => *poisoned = true,
                }
            }
            Partial::List { elements, seen, size_bytes } => {
                let Some(Value::Array(items)) = item else { return Err(SqlError::UnmergeableRow) };
                for item in items {
                    if seen.as_mut().is_none_or(|seen| seen.insert(identity(item))) {
                        *size_bytes += value_size(item);
                        elements.push(item.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Approximate size of its contents.
    pub fn size(&self) -> usize {
        match self {
            Partial::Count(_) | Partial::Sum(_) | Partial::Average { .. } => 0,
            Partial::Extreme { value, .. } => value.as_ref().map_or(0, value_size),
            Partial::List { seen, size_bytes, .. } => *size_bytes * if seen.is_some() { 2 } else { 1 },
        }
    }

    /// `Undefined` when there is no result.
    pub fn finish(self) -> Value {
        match self {
            Partial::Count(count) => Value::Int(count),
            Partial::Sum(sum) => sum.map_or(Value::Undefined, number_value),
            Partial::Average { count: 0, .. } => Value::Undefined,
            Partial::Average { sum, count } => {
                sum.map_or(Value::Undefined, |sum| number_value(sum / count as f64))
            }
            Partial::Extreme { poisoned: true, .. } => Value::Undefined,
            Partial::Extreme { value, .. } => value.unwrap_or(Value::Undefined),
            Partial::List { elements, .. } => Value::Array(elements),
        }
    }
}

fn integer(value: Option<&Value>) -> Result<i64, SqlError> {
    match value.and_then(Value::as_number) {
        Some(Number::Int(number)) => Ok(number),
        _ => Err(SqlError::UnmergeableRow),
    }
}

/// `None` if either part is missing.
fn plus(sum: Option<f64>, item: Option<&Value>) -> Result<Option<f64>, SqlError> {
    let Some(item) = item else { return Ok(None) };
    let number = item.as_number().ok_or(SqlError::UnmergeableRow)?;
    Ok(sum.map(|sum| sum + number.as_f64()))
}

fn keep_extreme(extreme: &mut Option<Value>, value: &Value, largest: bool) {
    let is_better = extreme.as_ref().is_none_or(|extreme| {
        let order = compare(extreme, value);
        if largest { order.is_lt() } else { order.is_gt() }
    });
    if is_better {
        *extreme = Some(value.clone());
    }
}
