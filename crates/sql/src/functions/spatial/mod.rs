//! The spatial functions over GeoJSON values.
//!
//! What is no GeoJSON of a known type is undefined, and so is every function of an invalid shape but the two that tell valid
//! shapes from others. `ST_WITHIN` needs a point inside: what lies on the boundary only is not within. Polygons are taken as
//! they come: only the two checks look for rings that cross themselves.
//!
//! | file | what it does |
//! |---|---|
//! | `shape.rs` | reads and checks GeoJSON |
//! | `topology.rs` | inside, outside, crossing |
//! | `measure.rs` | distance and area |

mod measure;
mod shape;
#[cfg(test)]
mod tests;
mod topology;

use std::borrow::Cow;

use shardlake_document::Value;

use crate::evaluate::datum::Datum;
use crate::evaluate::operators::number_datum;
use crate::functions::call::Call;
use shape::{Fault, Shape};

fn shape(call: &Call<'_, '_>, index: usize) -> Option<Result<Shape, Fault>> {
    Shape::read(call.datum(index), call.context.geometry)
}

fn both(call: &Call<'_, '_>) -> Option<(Shape, Shape)> {
    Some((shape(call, 0)?.ok()?, shape(call, 1)?.ok()?))
}

pub(super) fn distance<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (left, right) = both(call)?;
    Some(number_datum(measure::distance(&left, &right)))
}

pub(super) fn is_within<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (part, whole) = both(call)?;
    Some(Datum::Bool(topology::is_within(&part, &whole)))
}

pub(super) fn intersects<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (left, right) = both(call)?;
    Some(Datum::Bool(topology::intersect(&left, &right)))
}

/// Only polygons have an area.
pub(super) fn area<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let shape = shape(call, 0)?.ok()?;
    (!shape.polygons.is_empty()).then(|| number_datum(measure::area(&shape)))
}

/// What is wrong with a shape, if anything is.
fn fault(call: &Call<'_, '_>) -> Option<Option<Fault>> {
    Some(match shape(call, 0)? {
        Ok(shape) => topology::fault_of_rings(&shape),
        Err(fault) => Some(fault),
    })
}

pub(super) fn is_valid<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(Datum::Bool(fault(call)?.is_none()))
}

/// `{"valid": true}`, or false and the reason.
pub(super) fn is_valid_detailed<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let fault = fault(call)?;
    let mut members = vec![("valid".to_string(), Value::Bool(fault.is_none()))];
    members.extend(fault.map(|reason| ("reason".to_string(), Value::String(reason))));
    Some(Datum::Object(Cow::Owned(members)))
}
