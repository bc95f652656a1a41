//! Lengths and areas: on the WGS-84 ellipsoid in metres along geodesics, in the plane in the units of the coordinates.

use geographiclib_rs::{Geodesic, InverseGeodesic};

use crate::functions::spatial::ring::{Point, geodesic_area, signed_area};
use crate::functions::spatial::shape::Shape;
use crate::functions::spatial::topology;
use crate::value::context::GeometryKind;

/// Pairs whose distance on the sphere is this much more than the smallest cannot be nearest on the ellipsoid, which is
/// flattened by a three hundredth.
const SPHERE_SLACK: f64 = 1.01;

/// How many of those pairs are measured exactly.
const REFINED_MAX: usize = 32;

/// The area of all polygons without their holes.
pub(super) fn area(shape: &Shape) -> f64 {
    let of_outer = |ring: &[Point]| match shape.kind {
        GeometryKind::Geography => geodesic_area(ring, false),
        GeometryKind::Geometry => signed_area(ring, shape.kind).abs(),
    };
    let of_polygon = |rings: &[Vec<Point>]| {
        let holes: f64 = rings.iter().skip(1).map(|hole| signed_area(hole, shape.kind).abs()).sum();
        rings.first().map_or(0.0, |ring| of_outer(ring)) - holes
    };
    shape.polygons.iter().map(|polygon| of_polygon(&polygon.rings)).sum()
}

/// The smallest distance between two shapes; zero when they meet.
pub(super) fn distance(left: &Shape, right: &Shape) -> f64 {
    if let ([from], [to], true) = (&left.points[..], &right.points[..], left.is_points() && right.is_points())
    {
        return between_points(left.kind, from, to);
    }
    if topology::intersect(left, right) {
        return 0.0;
    }
    match left.kind {
        GeometryKind::Geometry => {
            pairs(left, right).map(|pair| pair.planar_distance()).fold(f64::INFINITY, f64::min)
        }
        GeometryKind::Geography => geodesic_distance(left, right),
    }
}

fn between_points(kind: GeometryKind, from: &Point, to: &Point) -> f64 {
    match kind {
        GeometryKind::Geometry => (from.x - to.x).hypot(from.y - to.y),
        GeometryKind::Geography => Geodesic::wgs84().inverse(from.y, from.x, to.y, to.x),
    }
}

/// A point of one shape, and an edge or a point (an edge with equal ends) of the other.
#[derive(Clone, Copy)]
struct Pair<'s> {
    point: &'s Point,
    edge: (&'s Point, &'s Point),
}

/// Shapes that do not meet are nearest at an end of an edge, so points against edges are enough.
fn pairs<'s>(left: &'s Shape, right: &'s Shape) -> impl Iterator<Item = Pair<'s>> {
    let one_way = |from: &'s Shape, to: &'s Shape| {
        from.vertices().flat_map(|point| {
            let points = to.points.iter().map(|other| (other, other));
            points.chain(to.edges()).map(move |edge| Pair { point, edge })
        })
    };
    one_way(left, right).chain(one_way(right, left))
}

fn geodesic_distance(left: &Shape, right: &Shape) -> f64 {
    let smallest = pairs(left, right).map(|pair| pair.sphere_distance()).fold(f64::INFINITY, f64::min);
    let mut near: Vec<(f64, Pair<'_>)> = Vec::new();
    for pair in pairs(left, right) {
        let distance = pair.sphere_distance();
        if distance > smallest * SPHERE_SLACK {
            continue;
        }
        near.push((distance, pair));
        if near.len() > 2 * REFINED_MAX {
            keep_nearest(&mut near);
        }
    }
    keep_nearest(&mut near);
    near.iter().map(|(_, pair)| pair.geodesic_distance()).fold(f64::INFINITY, f64::min)
}

fn keep_nearest(near: &mut Vec<(f64, Pair<'_>)>) {
    near.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    near.truncate(REFINED_MAX);
}

impl Pair<'_> {
    fn planar_distance(&self) -> f64 {
        let (from, to) = self.edge;
        let (along_x, along_y) = (to.x - from.x, to.y - from.y);
        let (x, y) = (self.point.x - from.x, self.point.y - from.y);
        let square = along_x * along_x + along_y * along_y;
        let share = if square > 0.0 { ((x * along_x + y * along_y) / square).clamp(0.0, 1.0) } else { 0.0 };
        (x - share * along_x).hypot(y - share * along_y)
    }

    /// The angle between the point and the nearest point of the great circle between the ends.
    fn sphere_distance(&self) -> f64 {
        let (point, (from, to)) = (self.point.vector, (self.edge.0.vector, self.edge.1.vector));
        let ends = topology::angle(point, from).min(topology::angle(point, to));
        topology::angle_to_edge(point, (from, to)).map_or(ends, |angle| angle.min(ends))
    }

    /// Searches the nearest point of the geodesic between the ends by golden sections: the distance along it
    /// falls and then rises.
    fn geodesic_distance(&self) -> f64 {
        const STEPS: usize = 48;
        let (from, to) = self.edge;
        let geodesic = Geodesic::wgs84();
        let to_place = |x: f64, y: f64| -> f64 { geodesic.inverse(self.point.y, self.point.x, y, x) };
        let ends = to_place(from.x, from.y).min(to_place(to.x, to.y));
        if from.vector == to.vector {
            return ends;
        }
        let along = Line::new(&geodesic, from, to);
        let at = |length: f64| {
            let (x, y) = along.position(length);
            to_place(x, y)
        };
        let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
        let (mut low, mut high) = (0.0, along.length);
        let (mut first, mut second) = (high - golden * (high - low), low + golden * (high - low));
        let (mut at_first, mut at_second) = (at(first), at(second));
        for _ in 0..STEPS {
            if at_first < at_second {
                (high, second, at_second) = (second, first, at_first);
                first = high - golden * (high - low);
                at_first = at(first);
            } else {
                (low, first, at_first) = (first, second, at_second);
                second = low + golden * (high - low);
                at_second = at(second);
            }
        }
        ends.min(at_first).min(at_second)
    }
}

/// The geodesic between two points.
struct Line<'g> {
    geodesic: &'g Geodesic,
    from: (f64, f64),
    azimuth: f64,
    length: f64,
}

impl<'g> Line<'g> {
    fn new(geodesic: &'g Geodesic, from: &Point, to: &Point) -> Self {
        let (length, azimuth, _, _) = geodesic.inverse(from.y, from.x, to.y, to.x);
        Line { geodesic, from: (from.x, from.y), azimuth, length }
    }

    fn position(&self, length: f64) -> (f64, f64) {
        use geographiclib_rs::DirectGeodesic as _;
        let (latitude, longitude) = self.geodesic.direct(self.from.1, self.from.0, self.azimuth, length);
        (longitude, latitude)
    }
}
