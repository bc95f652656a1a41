//! Arrays as sets: no duplicate elements, equality by structure. Results keep the order of first appearance;
//! an intersection has the order of its shorter argument, and of the second if both have the same length.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use shardlake_document::{Value, compare};

use crate::error::SqlError;
use crate::functions::call::Call;
use crate::value::datum::{Datum, grow};

/// A value in the total order of values, in which equal values are equal.
struct Ordered(Value);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

pub(super) fn union<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(left), Some(right)) = (call.elements(0), call.elements(1)) else { return Ok(None) };
    distinct(left.chain(right), |_| true)
}

pub(super) fn intersect<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(left), Some(right)) = (call.elements(0), call.elements(1)) else { return Ok(None) };
    let (shorter, longer) = if left.count() < right.count() { (0, 1) } else { (1, 0) };
    let (Some(elements), Some(others)) = (call.elements(shorter), set(call, longer)) else { return Ok(None) };
    distinct(elements, |element| others.contains(element))
}

pub(super) fn difference<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(left), Some(right)) = (call.elements(0), set(call, 1)) else { return Ok(None) };
    distinct(left, |element| !right.contains(element))
}

pub(super) fn equal<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (left, right) = (set(call, 0)?, set(call, 1)?);
    Some(Datum::Bool(left == right))
}

fn set(call: &Call<'_, '_>, index: usize) -> Option<BTreeSet<Ordered>> {
    Some(call.elements(index)?.map(|element| Ordered(element.into_value())).collect())
}

/// The elements that `keep` wants, each once.
fn distinct<'a, 'd>(
    elements: impl Iterator<Item = Datum<'d>>,
    keep: impl Fn(&Ordered) -> bool,
) -> Result<Option<Datum<'a>>, SqlError> {
    let (mut seen, mut out, mut size) = (BTreeSet::new(), Vec::new(), 0);
    for element in elements {
        let element = Ordered(element.into_value());
        if keep(&element) && !seen.contains(&element) {
            grow(&mut size, Datum::from_tree(&element.0).size())?;
            out.push(element.0.clone());
            seen.insert(element);
        }
    }
    Ok(Some(Datum::Array(Cow::Owned(out))))
}
