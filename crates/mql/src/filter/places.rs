//! Values that geographic indexes accept in documents.

use super::geo_parse::document_shape;
use super::geo_shape::{CORNERS_COMPARED_MAX, Space};
use crate::error::{Result, fail};
use crate::path;
use crate::value::{Document, Value};

/// The kind of places that an index accepts.
#[derive(Clone, Copy, Debug)]
pub enum Places {
    /// GeoJSON, or a pair of longitude and latitude.
    OnSphere,
    /// Pairs of numbers from the first bound up to the second, which belongs to it.
    InPlane(f64, f64),
}

impl Places {
    /// The places that an index of this kind accepts; `None` for an index that is not geographic.
    pub fn of_kind(kind: &str, options: &Document) -> Option<Places> {
        let bound = |name: &str, usual: f64| options.get(name).and_then(Value::to_f64).unwrap_or(usual);
        match kind {
            "2dsphere" => Some(Places::OnSphere),
            "2d" => Some(Places::InPlane(bound("min", -180.0), bound("max", 180.0))),
            _ => None,
        }
    }

    /// Refuses a document that holds something else at a path. Nothing at all is no error.
    pub fn check(self, document: &Document, field: &str) -> Result<()> {
        let mut outcome = Ok(());
        path::walk(document, &path::split_path(field), &mut |reached| {
            outcome = match self {
                Places::OnSphere => check_on_sphere(reached.value, field),
                Places::InPlane(low, high) => check_in_plane(reached.value, (low, high), field),
            };
            outcome.is_err()
        });
        outcome
    }
}

fn check_on_sphere(value: &Value, field: &str) -> Result<()> {
    if value.is_nullish() {
        return Ok(());
    }
    let Some(shape) = document_shape(value) else {
        fail!(16755, "Can't extract geo keys: unknown GeoJSON type or coordinates in '{field}': {value}");
    };
    let is_on_sphere = |(longitude, latitude): (f64, f64)| {
        (-180.0..=180.0).contains(&longitude) && (-90.0..=90.0).contains(&latitude)
    };
    if !shape.points().all(is_on_sphere) {
        fail!(16755, "Can't extract geo keys: longitude/latitude is out of bounds in '{field}': {value}");
    }
    let crosses_itself =
        |ring: &Vec<(f64, f64)>| ring.len() <= CORNERS_COMPARED_MAX && Space::Sphere.crosses_itself(ring);
    if shape.polygons.iter().flatten().any(crosses_itself) {
        fail!(16755, "Can't extract geo keys: the edges of a polygon cross in '{field}': {value}");
    }
    Ok(())
}

fn check_in_plane(value: &Value, (low, high): (f64, f64), field: &str) -> Result<()> {
    if value.is_nullish() {
        return Ok(());
    }
    match (pair(value), value) {
        (Some((x, y)), _) => {
            let is_inside = |number: f64| low <= number && number <= high;
            if !is_inside(x) || !is_inside(y) {
                fail!(13027, "point not in interval of [ {low}, {high} ] in '{field}': {value}");
            }
            Ok(())
        }
        (None, Value::Array(items)) if items.iter().all(|item| pair(item).is_some()) => {
            items.iter().try_for_each(|item| check_in_plane(item, (low, high), field))
        }
        _ => fail!(
            16804,
            "location object expected, location array not in correct format in '{field}': {value}"
        ),
    }
}

/// The first two members, where they are numbers.
fn pair(value: &Value) -> Option<(f64, f64)> {
    match value {
        Value::Array(items) => Some((items.first()?.to_f64()?, items.get(1)?.to_f64()?)),
        Value::Document(members) => {
            let mut numbers = members.iter().map(|(_, value)| value.to_f64());
            Some((numbers.next()??, numbers.next()??))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(x: f64, y: f64) -> Value {
        Value::array(vec![Value::Double(x), Value::Double(y)])
    }

    fn code(places: Places, value: Value) -> Option<i32> {
        places.check(&Document::one("loc", value), "loc").err().map(|error| error.code())
    }

    #[test]
    fn places_are_checked_and_missing_ones_are_none() {
        let plane = Places::InPlane(-180.0, 180.0);
        assert_eq!(code(plane, pair(180.0, 0.0)), None);
        assert_eq!(code(plane, pair(181.0, 0.0)), Some(13027));
        assert_eq!(code(plane, Value::array(vec![pair(1.0, 2.0), pair(3.0, 4.0)])), None);
        assert_eq!(code(plane, Value::string("here")), Some(16804));
        assert_eq!(code(Places::OnSphere, pair(180.0, 90.0)), None);
        assert_eq!(code(Places::OnSphere, pair(0.0, 91.0)), Some(16755));
        assert_eq!(code(Places::OnSphere, Value::Int(42)), Some(16755));
        assert_eq!(code(Places::OnSphere, Value::Null), None);
        assert!(Places::OnSphere.check(&Document::new(), "loc").is_ok());
    }

    #[test]
    fn a_polygon_whose_edges_cross_is_refused() {
        let polygon = |corners: &[(f64, f64)]| {
            let ring = Value::array(corners.iter().map(|(x, y)| pair(*x, *y)).collect());
            let mut shape = Document::one("type", "Polygon");
            shape.push("coordinates", Value::array(vec![ring]));
            Value::document(shape)
        };
        let bow = [(0.0, 0.0), (10.0, 10.0), (10.0, 0.0), (0.0, 10.0), (0.0, 0.0)];
        assert_eq!(code(Places::OnSphere, polygon(&bow)), Some(16755));
        let square = [(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0), (0.0, 0.0)];
        assert_eq!(code(Places::OnSphere, polygon(&square)), None);
    }
}
