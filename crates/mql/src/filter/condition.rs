//! Conditions on one value.

use super::bits::Bits;
use super::geo::GeoTest;
use super::{Matched, Node};
use crate::decimal::Rounding;
use crate::error::{Result, fail};
use crate::expression::Env;
use crate::order;
use crate::pattern::Pattern;
use crate::value::Value;
use shardlake_collation::Collation;
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A condition on one value.
#[derive(Debug)]
pub(super) enum Leaf {
    Compare(Comparison, Value, Collation),
    /// [Collated](order::collated) values in their order, of which there may be a million, and patterns.
    In(Vec<Value>, Vec<Leaf>, Collation),
    /// Compiled pattern, and the regex that equals it when stored.
    Regex(Arc<Pattern>, Value),
    Modulo(i64, i64),
    Exists,
    /// Numbers of types; whether all numbers are accepted as well.
    Type(Vec<i32>, bool),
    Size(i64),
    /// An element that is a document and meets a filter.
    ElementDocument(Box<Node>),
    /// An element that meets operators.
    ElementValue(Box<Node>),
    Bits(Bits),
    Geo(GeoTest),
    Never,
}

impl Leaf {
    /// The place of this kind among those that are looked at together.
    pub fn place(&self) -> u8 {
        match self {
            Leaf::ElementDocument(_) => 10,
            Leaf::ElementValue(_) => 11,
            Leaf::Size(_) => 12,
            Leaf::Compare(Comparison::Equal, ..) => 13,
            Leaf::Compare(Comparison::LessOrEqual, ..) => 14,
            Leaf::Compare(Comparison::Less, ..) => 15,
            Leaf::Compare(Comparison::Greater, ..) => 16,
            Leaf::Compare(Comparison::GreaterOrEqual, ..) => 17,
            Leaf::Regex(..) => 18,
            Leaf::Modulo(..) => 19,
            Leaf::Exists => 20,
            Leaf::In(..) => 21,
            Leaf::Bits(_) => 22,
            Leaf::Type(..) => 31,
            Leaf::Geo(_) => 32,
            Leaf::Never => 43,
        }
    }

    /// Whether an array meets the condition by one of its elements.
    pub fn looks_into_arrays(&self) -> bool {
        !matches!(
            self,
            Leaf::Exists | Leaf::Size(_) | Leaf::ElementDocument(_) | Leaf::ElementValue(_) | Leaf::Never
        )
    }

    /// The element by which `$elemMatch` holds.
    pub fn matching_element(&self, items: &[Value], env: &mut Env) -> Result<Option<usize>> {
        for (at, item) in items.iter().enumerate() {
            if self.element_meets(item, env)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn element_meets(&self, item: &Value, env: &mut Env) -> Result<bool> {
        match (self, item) {
            (Leaf::ElementDocument(node), Value::Document(document)) => {
                node.holds(document, env, &mut Matched::default())
            }
            // The members of an array have their places as names.
            (Leaf::ElementDocument(node), Value::Array(items)) => {
                let members =
                    items.iter().enumerate().map(|(at, item)| (at.to_string().into(), item.clone()));
                node.holds(&members.collect(), env, &mut Matched::default())
            }
            // An element that is an array is compared as a whole.
            (Leaf::ElementValue(node), item) => node.element_holds(item, env),
            _ => Ok(false),
        }
    }

    /// Whether one value meets the condition; `Missing` stands for no value.
    pub fn holds_for(&self, value: &Value, env: &mut Env) -> Result<bool> {
        env.repeat()?;
        Ok(match self {
            Leaf::Compare(comparison, wanted, collation) => compare((*comparison, collation), value, wanted),
            Leaf::In(values, patterns, collation) => {
                let value_or_null = if value.is_missing() { &Value::Null } else { value };
                if contains(values, value_or_null, collation)? {
                    return Ok(true);
                }
                for pattern in patterns {
                    if pattern.holds_for(value, env)? {
                        return Ok(true);
                    }
                }
                false
            }
            Leaf::Regex(pattern, own) => match value {
                Value::String(text) | Value::Symbol(text) => match pattern.is_match(text) {
                    Ok(found) => found,
                    Err(words) => fail!(51091, "Regular expression is invalid: {words}"),
                },
                Value::Regex(_) => order::equal(value, own),
                _ => false,
            },
            Leaf::Modulo(divisor, rest) => match whole(value) {
                Some(number) => number.wrapping_rem(*divisor) == *rest,
                None => false,
            },
            Leaf::Exists => !value.is_missing(),
            Leaf::Type(types, numbers) => {
                types.contains(&value.type_number()) && !value.is_missing() || (*numbers && value.is_number())
            }
            Leaf::Size(size) => matches!(value, Value::Array(items) if items.len() as i64 == *size),
            Leaf::ElementDocument(_) | Leaf::ElementValue(_) => match value {
                Value::Array(items) => {
                    for item in items.iter() {
                        if self.element_meets(item, env)? {
                            return Ok(true);
                        }
                    }
                    false
                }
                _ => false,
            },
            Leaf::Bits(bits) => bits.holds_for(value),
            Leaf::Geo(test) => test.holds_for(value),
            Leaf::Never => false,
        })
    }
}

/// Whether a value is one of [collated](order::collated) values that are in order.
fn contains(values: &[Value], value: &Value, collation: &Collation) -> Result<bool> {
    let is_one = |value: &Value| values.binary_search_by(|wanted| order::compare(wanted, value)).is_ok();
    Ok(if collation.is_simple() { is_one(value) } else { is_one(&order::collated(collation, value)?) })
}

/// Compares within a class of types; null also means no value.
fn compare((comparison, collation): (Comparison, &Collation), value: &Value, wanted: &Value) -> bool {
    let or_equal =
        matches!(comparison, Comparison::Equal | Comparison::LessOrEqual | Comparison::GreaterOrEqual);
    if value.is_missing() && !matches!(wanted, Value::MinKey | Value::MaxKey) {
        return or_equal && matches!(wanted, Value::Null);
    }
    if order::class(value) != order::class(wanted) {
        return matches!(
            (wanted, comparison),
            (Value::MaxKey, Comparison::Less | Comparison::LessOrEqual)
                | (Value::MinKey, Comparison::Greater | Comparison::GreaterOrEqual)
        );
    }
    if value.is_nan() || wanted.is_nan() {
        return or_equal && value.is_nan() && wanted.is_nan();
    }
    let found = order::compare_by(collation, value, wanted);
    match comparison {
        Comparison::Equal => found == Ordering::Equal,
        Comparison::Less => found == Ordering::Less,
        Comparison::LessOrEqual => found != Ordering::Greater,
        Comparison::Greater => found == Ordering::Greater,
        Comparison::GreaterOrEqual => found != Ordering::Less,
    }
}

/// A number without its fraction, if it fits 64 bits.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Double(number) => crate::value::double_to_i64(number.trunc()),
        Value::Decimal(number) => {
            number.to_whole(Rounding::Down).to_integer().and_then(|number| i64::try_from(number).ok())
        }
        other => other.to_i64_exact(),
    }
}
