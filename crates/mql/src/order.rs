//! The order of all values (spec §12.1), equality that goes with it, and the class of a type.

use crate::decimal::Decimal;
use crate::error::{MEMORY_LIMIT, Result, fail};
use crate::value::{Document, Str, Value};
use shardlake_collation::{Collation, SIMPLE, SORT_KEY_BYTES_MAX};
use std::cmp::Ordering;

/// Compares two values; nothing at all is below everything but `MinKey` and equals only itself.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    compare_by(&SIMPLE, left, right)
}

/// Compares two values with their strings, at every depth, by a collation. Names of members have none.
pub fn compare_by(collation: &Collation, left: &Value, right: &Value) -> Ordering {
    class(left).cmp(&class(right)).then_with(|| compare_same_class(collation, left, right))
}

/// The place of a type among the types. Values of one class compare by value.
pub fn class(value: &Value) -> i32 {
    match value {
        Value::MinKey => -1,
        Value::Missing => 0,
        Value::Undefined => 0,
        Value::Null => 5,
        Value::Double(_) | Value::Int(_) | Value::Long(_) | Value::Decimal(_) => 10,
        Value::String(_) | Value::Symbol(_) => 15,
        Value::Document(_) => 20,
        Value::Array(_) => 25,
        Value::Binary(..) => 30,
        Value::ObjectId(_) => 35,
        Value::Bool(_) => 40,
        Value::Date(_) => 45,
        Value::Timestamp(..) => 47,
        Value::Regex(_) => 50,
        Value::DbPointer(_) => 55,
        Value::Code(_) => 60,
        Value::CodeWithScope(_) => 65,
        Value::MaxKey => 127,
    }
}

fn compare_same_class(collation: &Collation, left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Missing, Value::Undefined) => Ordering::Less,
        (Value::Undefined, Value::Missing) => Ordering::Greater,
        (Value::String(left) | Value::Symbol(left), Value::String(right) | Value::Symbol(right)) => {
            collation.compare(left, right)
        }
        (Value::Document(left), Value::Document(right)) => compare_documents(collation, left, right),
        (Value::Array(left), Value::Array(right)) => compare_arrays(collation, left, right),
        (Value::Binary(left_type, left), Value::Binary(right_type, right)) => {
            let left = Value::binary_bytes(*left_type, left);
            let right = Value::binary_bytes(*right_type, right);
            let length = left.len().cmp(&right.len());
            length.then(left_type.cmp(right_type)).then_with(|| left.cmp(&right))
        }
        (Value::ObjectId(left), Value::ObjectId(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Date(left), Value::Date(right)) => left.cmp(right),
        (Value::Timestamp(left, low), Value::Timestamp(right, other)) => left.cmp(right).then(low.cmp(other)),
        (Value::Regex(left), Value::Regex(right)) => left.cmp(right),
        (Value::DbPointer(left), Value::DbPointer(right)) => {
            let length = left.0.len().cmp(&right.0.len());
            length.then_with(|| left.cmp(right))
        }
        (Value::Code(left), Value::Code(right)) => left.cmp(right),
        (Value::CodeWithScope(left), Value::CodeWithScope(right)) => {
            left.0.cmp(&right.0).then_with(|| compare_documents(&SIMPLE, &left.1, &right.1))
        }
        _ => compare_numbers(left, right),
    }
}

/// Compares two numbers by their exact values; other values of one class are equal.
fn compare_numbers(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Int(left), Value::Long(right)) => i64::from(*left).cmp(right),
        (Value::Long(left), Value::Int(right)) => left.cmp(&i64::from(*right)),
        (Value::Long(left), Value::Long(right)) => left.cmp(right),
        (Value::Double(left), Value::Double(right)) => compare_doubles(*left, *right),
        (Value::Double(left), Value::Int(right)) => compare_doubles(*left, f64::from(*right)),
        (Value::Int(left), Value::Double(right)) => compare_doubles(f64::from(*left), *right),
        (Value::Long(left), Value::Double(right)) => compare_long_double(*left, *right),
        (Value::Double(left), Value::Long(right)) => compare_long_double(*right, *left).reverse(),
        (Value::Decimal(left), Value::Double(right)) => left.compare_f64(*right),
        (Value::Double(left), Value::Decimal(right)) => right.compare_f64(*left).reverse(),
        (Value::Decimal(left), Value::Decimal(right)) => left.compare(*right),
        (Value::Decimal(left), Value::Int(right)) => left.compare(Decimal::from_i64(i64::from(*right))),
        (Value::Int(left), Value::Decimal(right)) => Decimal::from_i64(i64::from(*left)).compare(*right),
        (Value::Decimal(left), Value::Long(right)) => left.compare(Decimal::from_i64(*right)),
        (Value::Long(left), Value::Decimal(right)) => Decimal::from_i64(*left).compare(*right),
        _ => Ordering::Equal,
    }
}

fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

fn compare_long_double(left: i64, right: f64) -> Ordering {
    if right.is_nan() || right < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    if right >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    let whole = right.trunc();
    left.cmp(&(whole as i64)).then_with(|| compare_doubles(whole, right))
}

/// Member by member: class of the type, name, value; a document that ends first is less.
fn compare_documents(collation: &Collation, left: &Document, right: &Document) -> Ordering {
    let mut others = right.iter();
    for (name, value) in left.iter() {
        let Some((other_name, other)) = others.next() else { return Ordering::Greater };
        let order = class(value).cmp(&class(other)).then_with(|| name.as_bytes().cmp(other_name.as_bytes()));
        match order.then_with(|| compare_same_class(collation, value, other)) {
            Ordering::Equal => {}
            order => return order,
        }
    }
    if others.next().is_some() { Ordering::Less } else { Ordering::Equal }
}

fn compare_arrays(collation: &Collation, left: &[Value], right: &[Value]) -> Ordering {
    let pairs = left.iter().zip(right);
    let order = pairs.map(|(left, right)| compare_by(collation, left, right)).find(|order| order.is_ne());
    order.unwrap_or_else(|| left.len().cmp(&right.len()))
}

pub fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right).is_eq()
}

/// Whether two values are equal where a collation compares their strings.
pub fn equal_by(collation: &Collation, left: &Value, right: &Value) -> bool {
    compare_by(collation, left, right).is_eq()
}

/// The value with its sort keys in place of its strings, at every depth: [`compare`] of two such values is [`compare_by`] of the
/// values that they stand for. Error 292 where a sort key is too long.
pub fn collated(collation: &Collation, value: &Value) -> Result<Value> {
    if collation.is_simple() {
        return Ok(value.clone());
    }
    Ok(match value {
        Value::String(text) | Value::Symbol(text) => {
            let Some(key) = collation.bounded_sort_text(text) else {
                fail!(
                    MEMORY_LIMIT,
                    "the sort key of a string of {} bytes has more than {SORT_KEY_BYTES_MAX}: use the simple collation",
                    text.len()
                );
            };
            Value::string(key)
        }
        Value::Array(items) => {
            Value::array(items.iter().map(|item| collated(collation, item)).collect::<Result<_>>()?)
        }
        Value::Document(members) => {
            let member = |(name, member): (&Str, &Value)| Ok((name.clone(), collated(collation, member)?));
            Value::document(members.iter().map(member).collect::<Result<_>>()?)
        }
        other => other.clone(),
    })
}

/// Whether strings are a part of a value, so that a collation may find it equal to others.
pub fn has_strings(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Symbol(_) => true,
        Value::Array(items) => items.iter().any(has_strings),
        Value::Document(members) => members.iter().any(|(_, member)| has_strings(member)),
        _ => false,
    }
}

/// A value as a key of ordered maps and sets: equal as the language compares.
#[derive(Clone, Debug)]
pub struct Key(pub Value);

impl Key {
    /// The key of a value where a collation compares strings. The value itself is not in it.
    pub fn by(collation: &Collation, value: &Value) -> Result<Key> {
        Ok(Key(collated(collation, value)?))
    }

    /// Bytes that the key holds besides the value that it is of.
    pub fn bytes_beside(&self, collation: &Collation) -> usize {
        if collation.is_simple() { 0 } else { self.0.size() }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        equal(&self.0, &other.0)
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Whether two values are the same to the last bit: type, width, sign of zero, order of members.
pub fn identical(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Double(left), Value::Double(right)) => left.to_bits() == right.to_bits(),
        (Value::Decimal(left), Value::Decimal(right)) => left == right,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right.iter()).all(|(left, right)| identical(left, right))
        }
        (Value::Document(left), Value::Document(right)) => identical_documents(left, right),
        (Value::CodeWithScope(left), Value::CodeWithScope(right)) => {
            left.0 == right.0 && identical_documents(&left.1, &right.1)
        }
        _ => left.type_number() == right.type_number() && equal(left, right),
    }
}

pub fn identical_documents(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right.iter())
            .all(|((name, left), (other, right))| name == other && identical(left, right))
}
