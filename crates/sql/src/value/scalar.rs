//! A value that is neither an array nor an object, without a copy of its text.

use std::cmp::Ordering;

use shardlake_document::{Number, RawValue, Value, compare, compare_strings};

use crate::value::arithmetic::is_exact;
use crate::value::meter::READ_BYTES_PER_STEP;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    Undefined,
    Null,
    Bool(bool),
    Number(Number),
    String(&'a str),
}

impl<'a> Scalar<'a> {
    pub fn of_raw(raw: RawValue<'a>) -> Option<Scalar<'a>> {
        Some(match raw {
            RawValue::Null => Scalar::Null,
            RawValue::Bool(value) => Scalar::Bool(value),
            RawValue::Int(value) => Scalar::Number(Number::Int(value)),
            RawValue::Double(value) => Scalar::Number(Number::Double(value)),
            RawValue::String(text) => Scalar::String(text),
            RawValue::Array(_) | RawValue::Object(_) | RawValue::NonJson(_) => return None,
        })
    }

    /// `None` for arrays and objects.
    #[inline]
    pub fn of_literal(value: &'a Value) -> Option<Scalar<'a>> {
        Some(match value {
            Value::Undefined => Scalar::Undefined,
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Bool(*value),
            Value::Int(value) => Scalar::Number(Number::Int(*value)),
            Value::Double(value) => Scalar::Number(Number::Double(*value)),
            Value::String(text) => Scalar::String(text),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    /// Like `Datum::order`.
    #[inline]
    pub fn order(self, other: Scalar<'_>) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Null, Scalar::Null) => Some(Ordering::Equal),
            (Scalar::Bool(left), Scalar::Bool(right)) => Some(left.cmp(&right)),
            (Scalar::Number(Number::Int(left)), Scalar::Number(Number::Int(right))) => Some(left.cmp(&right)),
            (Scalar::Number(left), Scalar::Number(right)) if is_exact(left) && is_exact(right) => {
                left.as_f64().partial_cmp(&right.as_f64())
            }
            (Scalar::Number(left), Scalar::Number(right)) => {
                let is_ordered = !left.as_f64().is_nan() && !right.as_f64().is_nan();
                is_ordered.then(|| compare(&left.into(), &right.into()))
            }
            (Scalar::String(left), Scalar::String(right)) => Some(compare_strings(left, right)),
            _ => None,
        }
    }

    /// Like `Datum::equals`.
    #[inline]
    pub fn equals(self, other: Scalar<'_>) -> Option<bool> {
        match (self, other) {
            (Scalar::Undefined, _) | (_, Scalar::Undefined) => None,
            (Scalar::Null, Scalar::Null)
            | (Scalar::Bool(_), Scalar::Bool(_))
            | (Scalar::Number(_), Scalar::Number(_))
            | (Scalar::String(_), Scalar::String(_)) => self.order(other).map(Ordering::is_eq),
            _ => Some(false),
        }
    }

    /// Like `Datum::comparison_steps`.
    #[inline]
    pub fn comparison_steps(self, other: Scalar<'_>) -> u64 {
        match (self, other) {
            (Scalar::String(left), Scalar::String(right)) => {
                left.len().min(right.len()) as u64 / READ_BYTES_PER_STEP
            }
            _ => 0,
        }
    }
}

impl From<Option<bool>> for Scalar<'_> {
    fn from(value: Option<bool>) -> Self {
        value.map_or(Scalar::Undefined, Scalar::Bool)
    }
}
