//! Positions and rings: a position as coordinates and as a vector, the area inside a ring.

use geographiclib_rs::{Geodesic, PolygonArea, Winding};

use crate::value::context::GeometryKind;

pub(super) type Vector = [f64; 3];

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Longitude in degrees, or the first coordinate of the plane.
    pub x: f64,
    /// Latitude in degrees, or the second coordinate of the plane.
    pub y: f64,
    pub vector: Vector,
}

impl Point {
    pub fn new(kind: GeometryKind, x: f64, y: f64) -> Point {
        let vector = match kind {
            GeometryKind::Geometry => [x, y, 1.0],
            GeometryKind::Geography => {
                let (longitude, latitude) = (x.to_radians(), y.to_radians());
                let across = latitude.cos();
                [across * longitude.cos(), across * longitude.sin(), latitude.sin()]
            }
        };
        Point { x, y, vector }
    }
}

/// Area inside a closed ring, negative when it runs clockwise. On the globe, the area of the smaller side.
pub(super) fn signed_area(ring: &[Point], kind: GeometryKind) -> f64 {
    match kind {
        GeometryKind::Geography => geodesic_area(ring, true),
        GeometryKind::Geometry => {
            // Relative to the first point, so that far-away coordinates keep their digits.
            let origin = ring.first().map_or((0.0, 0.0), |first| (first.x, first.y));
            let local = |point: &Point| (point.x - origin.0, point.y - origin.1);
            let twice = ring.windows(2).map(|pair| {
                let ((x, y), (next_x, next_y)) = (local(&pair[0]), local(&pair[1]));
                x * next_y - next_x * y
            });
            twice.sum::<f64>() / 2.0
        }
    }
}

/// The area inside a closed ring on the globe; of the smaller side if it is signed.
pub(super) fn geodesic_area(ring: &[Point], is_signed: bool) -> f64 {
    let geodesic = Geodesic::wgs84();
    let mut polygon = PolygonArea::new(&geodesic, Winding::CounterClockwise);
    for point in ring.iter().skip(1) {
        polygon.add_point(point.y, point.x);
    }
    polygon.compute(is_signed).1
}
