//! Sets of values as ranges of index values: comparisons with constants, and the boundaries of types.

use std::cmp::Ordering;

use shardlake_document::{TypeTag, Value, encode_index_value};

use super::ValueRange;

/// A set of values and whether the ranges are exactly it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValueSet {
    pub ranges: Vec<ValueRange>,
    pub precise: bool,
}

impl ValueSet {
    pub fn nothing() -> ValueSet {
        ValueSet { ranges: vec![], precise: true }
    }

    /// Every value that is not undefined.
    pub fn defined() -> ValueSet {
        ValueSet { ranges: vec![between(TypeTag::Null, TypeTag::Object)], precise: true }
    }

    pub fn undefined() -> ValueSet {
        let undefined = between(TypeTag::Undefined, TypeTag::Undefined);
        ValueSet { ranges: vec![undefined], precise: true }
    }

    pub fn types(first: TypeTag, last: TypeTag) -> ValueSet {
        ValueSet { ranges: vec![between(first, last)], precise: true }
    }

    /// Values equal to a constant.
    pub fn equal(constant: &Value) -> ValueSet {
        match constant {
            Value::Undefined => ValueSet::nothing(),
            Value::Double(number) if number.is_nan() => ValueSet::nothing(),
            constant => {
                let (start, precise) = encoded(constant);
                ValueSet { ranges: vec![single(start)], precise }
            }
        }
    }

    /// Values ordered against a constant; only values of the constant's type are.
    pub fn ordered(constant: &Value, accepts: fn(Ordering) -> bool) -> ValueSet {
        let tags = match TypeTag::of(constant) {
            TypeTag::Null => (TypeTag::Null, TypeTag::Null),
            TypeTag::False | TypeTag::True => (TypeTag::False, TypeTag::True),
            TypeTag::Number => (TypeTag::Number, TypeTag::Number),
            TypeTag::String => (TypeTag::String, TypeTag::String),
            TypeTag::Undefined | TypeTag::Array | TypeTag::Object => return ValueSet::nothing(),
        };
        if matches!(constant, Value::Double(number) if number.is_nan()) {
            return ValueSet::nothing();
        }
        let whole = between(tags.0, tags.1);
        let (start, precise) = encoded(constant);
        let end = successor(&start);
        let mut ranges = Vec::new();
        if accepts(Ordering::Less) || (!precise && accepts(Ordering::Equal)) {
            ranges.push(ValueRange { start: whole.start, end: start.clone() });
        }
        // Entries of a cut constant show only that the beginnings are equal.
        if accepts(Ordering::Equal) || !precise {
            ranges.push(ValueRange { start, end: end.clone() });
        }
        if accepts(Ordering::Greater) {
            ranges.push(ValueRange { start: end, end: whole.end });
        }
        ValueSet { ranges: merged(ranges), precise }
    }

    pub fn strings_starting_with(start: &str) -> ValueSet {
        let (mut bytes, precise) = encoded(&Value::String(start.to_owned()));
        if precise {
            // The end mark is cut off.
            bytes.pop();
        }
        let end = successor(&bytes);
        debug_assert!(bytes < end, "some text starts with each start");
        ValueSet { ranges: vec![ValueRange { start: bytes, end }], precise }
    }

    pub fn union(sets: impl IntoIterator<Item = ValueSet>) -> ValueSet {
        let mut union = ValueSet::nothing();
        for set in sets {
            union.ranges.extend(set.ranges);
            union.precise &= set.precise;
        }
        union.ranges = merged(union.ranges);
        union
    }

    /// The defined values outside the set. For a set that is not precise, all defined values may be outside.
    pub fn complement(&self) -> ValueSet {
        debug_assert!(are_ascending(&self.ranges), "the ranges of a set are disjoint and ascend");
        if !self.precise {
            return ValueSet { precise: false, ..ValueSet::defined() };
        }
        let whole = between(TypeTag::Null, TypeTag::Object);
        let mut ranges = Vec::new();
        let mut start = whole.start;
        for range in &self.ranges {
            if start < range.start {
                ranges.push(ValueRange { start, end: range.start.clone() });
            }
            start = range.end.clone();
        }
        if start < whole.end {
            ranges.push(ValueRange { start, end: whole.end });
        }
        ValueSet { ranges, precise: true }
    }

    pub fn intersect(&self, other: &ValueSet) -> ValueSet {
        let mut ranges = Vec::new();
        let (mut left, mut right) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(one), Some(two)) = (left.peek(), right.peek()) {
            let (start, end) = ((&one.start).max(&two.start), (&one.end).min(&two.end));
            if start < end {
                ranges.push(ValueRange { start: start.clone(), end: end.clone() });
            }
            if one.end < two.end {
                left.next()
            } else {
                right.next()
            };
        }
        debug_assert!(are_ascending(&ranges), "the ranges of a set are disjoint and ascend");
        ValueSet { ranges, precise: self.precise && other.precise }
    }

    /// Only points: one scalar each, or all strings with the beginning of one long string.
    pub fn is_single_values(&self) -> bool {
        let is_value = |range: &ValueRange| {
            let is_scalar = range.start.first().is_some_and(|tag| *tag < TypeTag::Array as u8);
            let length = shardlake_document::index_value_length(&range.start);
            is_scalar && is_point(range) && length == Some(range.start.len())
        };
        !self.ranges.is_empty() && self.ranges.iter().all(is_value)
    }
}

/// Everything from the first value of one type to the last of another.
pub(super) fn between(first: TypeTag, last: TypeTag) -> ValueRange {
    ValueRange { start: vec![first as u8], end: vec![last as u8 + 1] }
}

fn encoded(value: &Value) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let precise = encode_index_value(value, &mut bytes);
    (bytes, precise)
}

fn single(start: Vec<u8>) -> ValueRange {
    ValueRange { end: successor(&start), start }
}

/// The smallest byte string greater than all that start with these bytes.
pub(super) fn successor(bytes: &[u8]) -> Vec<u8> {
    let mut end = bytes.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xFF {
            end.push(last + 1);
            return end;
        }
    }
    vec![0xFF; 2]
}

/// Ascending, without overlaps, neighbours joined; single values stay separate ranges, so that they are
/// recognised.
fn merged(mut ranges: Vec<ValueRange>) -> Vec<ValueRange> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by(|left, right| left.start.cmp(&right.start));
    let mut merged: Vec<ValueRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last)
                if range.start < last.end
                    || (range.start == last.end && !(is_point(last) && is_point(&range))) =>
            {
                last.end = last.end.clone().max(range.end);
            }
            _ => merged.push(range),
        }
    }
    debug_assert!(are_ascending(&merged), "the ranges of a set are disjoint and ascend");
    merged
}

/// Whether the ranges are disjoint and in order.
pub(super) fn are_ascending(ranges: &[ValueRange]) -> bool {
    ranges.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

fn is_point(range: &ValueRange) -> bool {
    range.end == successor(&range.start)
}
