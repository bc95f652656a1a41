//! Functions of arrays, and objects as arrays.
//!
//! Elements are equal as with `=`: by structure, in any order of an object's members. Sums, averages
//! and extremes of an array follow the aggregates: undefined elements do not count, and one element of a
//! wrong type makes the result undefined.

use std::borrow::Cow;
use std::cmp::Ordering;

use shardlake_document::{Value, compare};

use crate::error::SqlError;
use crate::functions::call::{Call, elements, int, members};
use crate::functions::search::{Quantifier, combine};
use crate::value::constant_set::ConstantSet;
use crate::value::datum::{Datum, DatumType, grow};
use crate::value::operators::number_datum;

pub(super) fn length<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    match call.datum(0) {
        Datum::RawArray(array) => Some(int(array.len() as i64)),
        Datum::Array(elements) => Some(int(elements.len() as i64)),
        _ => None,
    }
}

pub(super) fn concat<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (mut out, mut size) = (Vec::new(), 0);
    for argument in call.arguments {
        let Some(elements) = elements(argument) else { return Ok(None) };
        for element in elements {
            push(&mut out, &mut size, element)?;
        }
    }
    Ok(Some(Datum::Array(Cow::Owned(out))))
}

/// A negative start counts from the end. Positions outside the array are left out.
pub(super) fn slice<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(start), Some(length)) = (call.integer(1), call.integer_or(2, i64::MAX)) else {
        return Ok(None);
    };
    let Some(elements) = call.elements(0) else { return Ok(None) };
    let skipped = if start < 0 {
        let count = elements.count();
        count.saturating_sub(usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(start).unwrap_or(usize::MAX)
    };
    let Some(elements) = call.elements(0) else { return Ok(None) };
    let (mut out, mut size) = (Vec::new(), 0);
    for element in elements.skip(skipped).take(usize::try_from(length).unwrap_or(0)) {
        push(&mut out, &mut size, element)?;
    }
    Ok(Some(Datum::Array(Cow::Owned(out))))
}

pub(super) fn push(out: &mut Vec<Value>, size: &mut usize, element: Datum<'_>) -> Result<(), SqlError> {
    grow(size, element.size())?;
    out.push(element.into_value());
    Ok(())
}

/// Equality with an element or, with the flag, equality of the wanted members with those of an element.
pub(super) fn contains<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let wanted = call.datum(1);
    let (Some(elements), Some(is_partial)) = (call.elements(0), call.flag(2)) else { return Ok(None) };
    let wanted_members = match is_partial {
        _ if wanted.is_undefined() => return Ok(None),
        true => members(wanted),
        false => None,
    };
    let Some(wanted_members) = wanted_members else {
        return has_element(call, wanted).map(|found| Some(Datum::Bool(found)));
    };
    for element in elements {
        let is_match = match element.datum_type() {
            DatumType::Object => has_members(call, &element, &wanted_members)?,
            _ => is_equal(call, &element, wanted)?,
        };
        if is_match {
            return Ok(Some(Datum::Bool(true)));
        }
    }
    Ok(Some(Datum::Bool(false)))
}

/// [`contains`] where the array is a constant.
pub(super) fn contains_in_set<'a>(
    call: &Call<'_, 'a>,
    set: &ConstantSet,
) -> Result<Option<Datum<'a>>, SqlError> {
    let (wanted, Some(is_partial)) = (call.datum(1), call.flag(2)) else { return Ok(None) };
    if wanted.is_undefined() {
        return Ok(None);
    }
    if is_partial && wanted.datum_type() == DatumType::Object {
        call.step(call.datum(0).read_steps())?;
        return contains(call);
    }
    call.step(set.steps(wanted))?;
    Ok(Some(Datum::Bool(set.contains(wanted))))
}

fn has_members(
    call: &Call<'_, '_>,
    element: &Datum<'_>,
    wanted: &[(Cow<'_, str>, Datum<'_>)],
) -> Result<bool, SqlError> {
    for (name, value) in wanted {
        call.step(1 + element.walk_steps())?;
        if !is_equal(call, &element.view().property(name), value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_element(call: &Call<'_, '_>, wanted: &Datum<'_>) -> Result<bool, SqlError> {
    let is_compound = wanted.is_compound();
    for element in call.elements(0).into_iter().flatten() {
        let is_found = match is_compound {
            true => is_equal(call, &element, wanted)?,
            false => element.equals(wanted) == Some(true),
        };
        if is_found {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_equal(call: &Call<'_, '_>, left: &Datum<'_>, right: &Datum<'_>) -> Result<bool, SqlError> {
    call.step(left.comparison_steps(right))?;
    Ok(left.equals(right) == Some(true))
}

/// AND or OR of `ARRAY_CONTAINS` with each value, in three-valued logic.
pub(super) fn contains_each<'a>(
    call: &Call<'_, 'a>,
    quantifier: Quantifier,
) -> Result<Option<Datum<'a>>, SqlError> {
    if call.datum(0).datum_type() != DatumType::Array {
        return Ok(None);
    }
    let array_steps = call.datum(0).read_steps();
    let tests = call.arguments[1..].iter().map(|wanted| {
        if wanted.is_undefined() {
            return Ok(None);
        }
        call.step(array_steps)?;
        has_element(call, wanted).map(Some)
    });
    Ok(combine(quantifier, tests)?.map(Datum::Bool))
}

/// The defined elements when all of them are numbers.
fn numbers(call: &Call<'_, '_>) -> Option<Vec<f64>> {
    let defined = call.elements(0)?.filter(|element| !element.is_undefined());
    defined
        .map(|element| match element {
            Datum::Number(number) => Some(number.as_f64()),
            _ => None,
        })
        .collect()
}

pub(super) fn sum<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    // Not `Iterator::sum`, which returns -0 for an empty input.
    Some(number_datum(numbers(call)?.into_iter().fold(0.0, |sum, number| sum + number)))
}

pub(super) fn average<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let numbers = numbers(call)?;
    let sum = numbers.iter().fold(0.0, |sum, number| sum + number);
    (!numbers.is_empty()).then(|| number_datum(sum / numbers.len() as f64))
}

pub(super) fn median<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let mut numbers = numbers(call)?;
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    let is_odd = !numbers.len().is_multiple_of(2);
    Some(number_datum(if is_odd { upper } else { (numbers[middle - 1] + upper) / 2.0 }))
}

/// The largest or smallest element, by type and then by value; undefined if an array or object is among them.
pub(super) fn extreme<'a>(call: &Call<'_, 'a>, largest: bool) -> Option<Datum<'a>> {
    let wanted = if largest { Ordering::Greater } else { Ordering::Less };
    let mut best: Option<Value> = None;
    for element in call.elements(0)?.filter(|element| !element.is_undefined()) {
        if matches!(element.datum_type(), DatumType::Array | DatumType::Object) {
            return None;
        }
        let element = element.into_value();
        if best.as_ref().is_none_or(|best| compare(&element, best) == wanted) {
            best = Some(element);
        }
    }
    best.map(Datum::from)
}

/// An object for each member, with its name and value under the names of the other arguments or `k` and `v`.
pub(super) fn object_to_array<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let name_of = |index: usize, default: &'static str| match call.arguments.get(index) {
        None => Some(default.to_string()),
        Some(Datum::String(name)) => Some(name.to_string()),
        Some(_) => None,
    };
    let (Some(key), Some(value)) = (name_of(1, "k"), name_of(2, "v")) else { return Ok(None) };
    let Some(members) = members(call.datum(0)) else { return Ok(None) };
    let (mut out, mut size) = (Vec::with_capacity(members.len()), 0);
    for (name, member) in members {
        grow(&mut size, key.len() + value.len() + name.len() + member.size())?;
        let mut pair = vec![(key.clone(), Value::String(name.into_owned()))];
        // Names of an object are unique: the last of two equal ones counts.
        if key == value {
            pair.clear();
        }
        pair.push((value.clone(), member.into_value()));
        out.push(Value::Object(pair));
    }
    Ok(Some(Datum::Array(Cow::Owned(out))))
}
