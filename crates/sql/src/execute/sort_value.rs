//! Sort keys.
//!
//! Types are ordered among each other, and scalars by their values. Arrays, like objects, are ordered among
//! themselves by the clients' hash of distinct values: clients that merge expect this order from partitions.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use shardlake_document::{Value, compare};

use super::distinct_hash::{DistinctHash, distinct_hash};
use crate::bound::{Expression, SortKey};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::evaluate::scope::Scope;

/// A sort key of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum SortValue {
    Scalar(Value),
    Array(DistinctHash),
    Object(DistinctHash),
}

impl SortValue {
    /// A scalar of the same type; of arrays and objects, the empty one.
    pub(crate) fn of_its_type(&self) -> Value {
        match self {
            SortValue::Scalar(value) => value.clone(),
            SortValue::Array(_) => Value::Array(vec![]),
            SortValue::Object(_) => Value::Object(vec![]),
        }
    }
}

impl From<Value> for SortValue {
    fn from(value: Value) -> SortValue {
        match value {
            Value::Array(_) => SortValue::Array(distinct_hash(&value)),
            Value::Object(_) => SortValue::Object(distinct_hash(&value)),
            scalar => SortValue::Scalar(scalar),
        }
    }
}

impl Ord for SortValue {
    fn cmp(&self, other: &SortValue) -> Ordering {
        match (self, other) {
            (SortValue::Scalar(left), SortValue::Scalar(right)) => compare(left, right),
            (SortValue::Array(left), SortValue::Array(right))
            | (SortValue::Object(left), SortValue::Object(right)) => left.cmp(right),
            (SortValue::Object(_), _) | (SortValue::Array(_), SortValue::Scalar(_)) => Ordering::Greater,
            (_, SortValue::Object(_)) | (SortValue::Scalar(_), SortValue::Array(_)) => Ordering::Less,
        }
    }
}

impl PartialOrd for SortValue {
    fn partial_cmp(&self, other: &SortValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortValue {
    fn eq(&self, other: &SortValue) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortValue {}

/// The sort key of a row.
pub(super) fn sort_value(key: &Expression, row: &Scope<'_>) -> Result<SortValue, SqlError> {
    let value = evaluate(key, row)?;
    row.step(value.copy_steps())?;
    Ok(value.to_value().into())
}

/// All sort keys of a row, with true where descending.
pub(super) fn sort_keys(order: &[SortKey], row: &Scope<'_>) -> Result<Vec<(SortValue, bool)>, SqlError> {
    order.iter().map(|key| Ok((sort_value(&key.expression, row)?, key.descending))).collect()
}

/// The order of two sort keys.
pub fn compare_sort_keys(left: &Value, right: &Value) -> Ordering {
    SortValue::from(left.clone()).cmp(&SortValue::from(right.clone()))
}
