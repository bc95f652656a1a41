//! Accumulators of aggregates: the state while values stream by, and the result at the end (engine.md §1.10).
//!
//! Undefined values are skipped by all of them. SUM and AVG have no result once a defined value is not a
//! number, MIN and MAX once a value is an array or an object. Sums are doubles.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use shardlake_document::{TypeTag, Value, compare, encode_ordered};

use crate::error::SqlError;
use crate::value::arithmetic::number_value;
use crate::value::datum::{Datum, DatumType, grow, value_size};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFunction {
    Average,
    Count,
    CountIf,
    MakeList,
    MakeSet,
    Max,
    Min,
    Sum,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Accumulator {
    Count {
        counts_true_only: bool,
        count: u64,
    },
    /// `sum` is `None` once a value was not a number.
    Sum {
        averages: bool,
        sum: Option<f64>,
        count: u64,
    },
    /// `poisoned` once a value was an array or an object.
    Extreme {
        largest: bool,
        value: Option<Value>,
        poisoned: bool,
    },
    /// `seen` holds the encoding of each element of a set.
    List {
        elements: Vec<Value>,
        size_bytes: usize,
        seen: Option<HashSet<Vec<u8>>>,
    },
}

impl Accumulator {
    pub fn new(function: AggregateFunction) -> Self {
        match function {
            AggregateFunction::Count => Accumulator::Count { counts_true_only: false, count: 0 },
            AggregateFunction::CountIf => Accumulator::Count { counts_true_only: true, count: 0 },
            AggregateFunction::Sum => Accumulator::Sum { averages: false, sum: Some(0.0), count: 0 },
            AggregateFunction::Average => Accumulator::Sum { averages: true, sum: Some(0.0), count: 0 },
            AggregateFunction::Min => Accumulator::Extreme { largest: false, value: None, poisoned: false },
            AggregateFunction::Max => Accumulator::Extreme { largest: true, value: None, poisoned: false },
            AggregateFunction::MakeList => {
                Accumulator::List { elements: Vec::new(), size_bytes: 0, seen: None }
            }
            AggregateFunction::MakeSet => {
                Accumulator::List { elements: Vec::new(), size_bytes: 0, seen: Some(HashSet::new()) }
            }
        }
    }

    pub fn add(&mut self, value: &Datum<'_>) -> Result<(), SqlError> {
        if value.is_undefined() {
            return Ok(());
        }
        match self {
            Accumulator::Count { counts_true_only, count } => {
                *count += u64::from(!*counts_true_only || matches!(value, Datum::Bool(true)));
            }
            Accumulator::Sum { sum, count, .. } => {
                *count += 1;
                *sum = match (*sum, value) {
                    (Some(sum), Datum::Number(number)) => Some(sum + number.as_f64()),
                    _ => None,
                };
            }
            Accumulator::Extreme { largest, value: extreme, poisoned } => {
                *poisoned |= matches!(value.datum_type(), DatumType::Array | DatumType::Object);
                if !*poisoned {
                    keep_extreme(extreme, value, *largest);
                }
            }
            Accumulator::List { elements, size_bytes, seen } => {
                let value = value.to_value();
                if seen.as_mut().is_none_or(|seen| seen.insert(identity(&value))) {
                    grow(size_bytes, value_size(&value))?;
                    elements.push(value);
                }
            }
        }
        Ok(())
    }

    /// Extra steps to accumulate a value, besides evaluating it: accumulators that keep values copy them.
    pub fn steps(&self, value: &Datum<'_>) -> u64 {
        match self {
            Accumulator::Count { .. } | Accumulator::Sum { .. } => 0,
            Accumulator::Extreme { .. } | Accumulator::List { .. } => value.read_steps(),
        }
    }

    /// Merges the state of another accumulator of the same aggregate.
    pub fn merge(&mut self, other: Accumulator) -> Result<(), SqlError> {
        match (self, other) {
            (Accumulator::Count { count, .. }, Accumulator::Count { count: more, .. }) => *count += more,
            (Accumulator::Sum { sum, count, .. }, Accumulator::Sum { sum: more, count: further, .. }) => {
                *sum = sum.zip(more).map(|(sum, more)| sum + more);
                *count += further;
            }
            (
                Accumulator::Extreme { largest, value, poisoned },
                Accumulator::Extreme { value: other, poisoned: is_poisoned, .. },
            ) => {
                *poisoned |= is_poisoned;
                if let Some(other) = other {
                    keep_extreme(value, &Datum::from_tree(&other), *largest);
                }
            }
            (this @ Accumulator::List { .. }, Accumulator::List { elements, .. }) => {
                for element in &elements {
                    this.add(&Datum::from_tree(element))?;
                }
            }
            _ => unreachable!("accumulators of one aggregate are of one kind"),
        }
        Ok(())
    }

    /// COUNT of several rows whose argument is known to be defined.
    pub fn add_count(&mut self, rows: u64) {
        if let Accumulator::Count { count, .. } = self {
            *count += rows;
        }
    }

    /// Approximate size of its contents.
    pub fn size(&self) -> usize {
        match self {
            Accumulator::Count { .. } | Accumulator::Sum { .. } => 0,
            Accumulator::Extreme { value, .. } => value.as_ref().map_or(0, value_size),
            Accumulator::List { size_bytes, .. } => *size_bytes,
        }
    }

    /// `Undefined` when there is no result.
    pub fn finish(self) -> Value {
        match self {
            Accumulator::Count { count, .. } => Value::Int(count as i64),
            Accumulator::Sum { averages: false, sum, .. } => sum.map_or(Value::Undefined, number_value),
            Accumulator::Sum { averages: true, count: 0, .. } => Value::Undefined,
            Accumulator::Sum { averages: true, sum, count } => {
                sum.map_or(Value::Undefined, |sum| number_value(sum / count as f64))
            }
            Accumulator::Extreme { poisoned: true, .. } => Value::Undefined,
            Accumulator::Extreme { value, .. } => value.unwrap_or(Value::Undefined),
            Accumulator::List { elements, .. } => Value::Array(elements),
        }
    }
}

fn keep_extreme(extreme: &mut Option<Value>, value: &Datum<'_>, largest: bool) {
    let is_better = match extreme {
        None => true,
        Some(extreme) => {
            let order = match Datum::from_tree(extreme).order(value) {
                Some(order) => order,
                None => compare(extreme, &value.to_value()),
            };
            if largest { order.is_lt() } else { order.is_gt() }
        }
    };
    if is_better {
        *extreme = Some(value.to_value());
    }
}

/// Bytes that are equal for values that are equal in queries, and different for others. Undefined has no
/// bytes.
pub(crate) fn identity(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !value.is_undefined() {
        write_identity(value, &mut bytes);
    }
    bytes
}

fn write_identity(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(elements) => {
            out.push(TypeTag::Array as u8);
            out.extend_from_slice(&elements.len().to_le_bytes());
            elements.iter().for_each(|element| write_identity(element, out));
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(_, value)| !value.is_undefined()).collect();
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            out.push(TypeTag::Object as u8);
            out.extend_from_slice(&members.len().to_le_bytes());
            for (name, value) in members {
                out.extend_from_slice(&name.len().to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                write_identity(value, out);
            }
        }
        Value::Double(zero) if *zero == 0.0 => write_identity(&Value::Int(0), out),
        scalar => encode_ordered(scalar, out).expect("scalars have an ordered encoding"),
    }
}
