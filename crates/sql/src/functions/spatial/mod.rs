//! The spatial functions over GeoJSON values.
//!
//! For an invalid shape or a value that is not GeoJSON, every function is undefined except the two validity
//! checks. `ST_WITHIN` needs a point inside: points on the boundary alone are not within. Polygons are not
//! checked for rings that cross themselves, except by the two validity checks.
//!
//! | file | contents |
//! |---|---|
//! | `ring.rs` | positions, the area inside a ring |
//! | `shape.rs` | reads and checks GeoJSON |
//! | `topology.rs` | inside, outside, crossing |
//! | `measure.rs` | distance and area |

mod measure;
mod ring;
mod shape;
#[cfg(test)]
mod tests;
mod topology;

use std::borrow::Cow;

use shardlake_document::Value;

use crate::error::SqlError;
use crate::functions::call::Call;
use crate::value::datum::Datum;
use crate::value::operators::number_datum;
use shape::{Fault, Shape};

fn shape(call: &Call<'_, '_>, index: usize) -> Option<Result<Shape, Fault>> {
    Shape::read(call.datum(index), call.context.geometry)
}

fn both(call: &Call<'_, '_>) -> Option<(Shape, Shape)> {
    Some((shape(call, 0)?.ok()?, shape(call, 1)?.ok()?))
}

/// Steps to read a shape.
const SHAPE_STEPS: u64 = 20;
/// Steps to find the nearest points of the nearest edges on the ellipsoid.
const NEAREST_STEPS: u64 = 1000;

/// Pairs of a point of one shape and an edge of the other: all are checked.
fn pairs(left: &Shape, right: &Shape) -> u64 {
    (left.vertices().count() as u64).saturating_mul(right.vertices().count() as u64)
}

pub(super) fn distance<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let Some((left, right)) = both(call) else { return Ok(None) };
    call.step(pairs(&left, &right).saturating_mul(4).saturating_add(SHAPE_STEPS + NEAREST_STEPS))?;
    Ok(Some(number_datum(measure::distance(&left, &right))))
}

pub(super) fn is_within<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let Some((part, whole)) = both(call) else { return Ok(None) };
    call.step(pairs(&part, &whole).saturating_add(SHAPE_STEPS))?;
    Ok(Some(Datum::Bool(topology::is_within(&part, &whole))))
}

pub(super) fn intersects<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let Some((left, right)) = both(call) else { return Ok(None) };
    call.step(pairs(&left, &right).saturating_add(SHAPE_STEPS))?;
    Ok(Some(Datum::Bool(topology::intersect(&left, &right))))
}

/// The area of the argument, 0 for points and lines.
pub(super) fn area<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let shape = shape(call, 0)?.ok()?;
    Some(number_datum(if shape.polygons.is_empty() { 0.0 } else { measure::area(&shape) }))
}

/// The reason why the argument is not a valid shape, if there is one.
fn fault(call: &Call<'_, '_>) -> Result<Option<Fault>, SqlError> {
    Ok(match shape(call, 0) {
        Some(Ok(shape)) => {
            // Every edge is compared with every other.
            call.step(pairs(&shape, &shape).saturating_add(SHAPE_STEPS))?;
            topology::fault_of_rings(&shape)
        }
        Some(Err(fault)) => Some(fault),
        None => Some(NO_SHAPE.to_owned()),
    })
}

const NO_SHAPE: &str = "Unable to process the geometry.";

pub(super) fn is_valid<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    Ok(Some(Datum::Bool(fault(call)?.is_none())))
}

/// `{"valid": true}`, or false and the reason.
pub(super) fn is_valid_detailed<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let fault = fault(call)?;
    let mut members = vec![("valid".to_string(), Value::Bool(fault.is_none()))];
    members.extend(fault.map(|reason| ("reason".to_string(), Value::String(reason))));
    Ok(Some(Datum::Object(Cow::Owned(members))))
}
