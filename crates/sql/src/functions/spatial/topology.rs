//! Positions of points relative to shapes, and meetings of edges.
//!
//! Everything rests on the sign of one determinant, [`turn`], computed from differences so that short edges
//! keep their digits. Shapes nearer than a few micrometres touch. On the globe edges are the shorter great
//! circles between their ends; the ellipsoid's geodesics stray from them by metres over long edges.

use crate::functions::spatial::ring::{Point, Vector, signed_area};
use crate::functions::spatial::shape::{Polygon, Shape, edges};
use crate::value::context::GeometryKind;

/// Touching: radians on the globe, a part of the coordinates' size in the plane.
const TOLERANCE: f64 = 1e-12;

/// Cosine of an angle so near to a half circle that the great circle between its ends is unreliable.
const NEARLY_OPPOSITE: f64 = -0.999_999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Inside,
    Boundary,
    Outside,
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn length(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// Positive when the way from `a` over `b` to `c` turns left.
fn turn(a: Vector, b: Vector, c: Vector) -> f64 {
    dot(a, cross(minus(b, a), minus(c, a)))
}

/// The distance within which points touch, around a point.
fn tolerance(kind: GeometryKind, point: Vector) -> f64 {
    match kind {
        GeometryKind::Geography => TOLERANCE,
        GeometryKind::Geometry => TOLERANCE * point[0].abs().max(point[1].abs()).max(1.0),
    }
}

pub(super) fn is_same(kind: GeometryKind, a: &Point, b: &Point) -> bool {
    length(minus(a.vector, b.vector)) <= tolerance(kind, a.vector)
}

/// Whether a point is on an edge, ends included.
fn is_on_edge(kind: GeometryKind, point: Vector, (a, b): (Vector, Vector)) -> bool {
    let (along, from_a, from_b) = (minus(b, a), minus(point, a), minus(point, b));
    let tolerance = tolerance(kind, point);
    if length(from_a) <= tolerance || length(from_b) <= tolerance {
        return true;
    }
    // The last condition leaves out the other side of the globe.
    let is_between =
        dot(from_a, along) >= 0.0 && dot(from_b, along) <= 0.0 && length(from_a) <= length(along);
    is_between && is_in_line(kind, point, (a, b))
}

/// Whether a point is on the line or great circle that an edge is part of.
fn is_in_line(kind: GeometryKind, point: Vector, (a, b): (Vector, Vector)) -> bool {
    let scale = length(cross(a, b)).min(length(minus(b, a)));
    turn(a, b, point).abs() <= tolerance(kind, point) * scale
}

/// Whether two edges cross in one point that is an end of neither.
fn do_cross((a, b): (Vector, Vector), (c, d): (Vector, Vector)) -> bool {
    let (acb, bda) = (-turn(a, b, c), turn(a, b, d));
    if acb * bda <= 0.0 {
        return false;
    }
    let (cbd, dac) = (-turn(c, d, b), turn(c, d, a));
    acb * cbd > 0.0 && acb * dac > 0.0
}

fn do_touch(kind: GeometryKind, first: (Vector, Vector), second: (Vector, Vector)) -> bool {
    is_on_edge(kind, first.0, second)
        || is_on_edge(kind, first.1, second)
        || is_on_edge(kind, second.0, first)
        || is_on_edge(kind, second.1, first)
}

/// The position of a point: left of a ring is inside.
///
/// Walks from the point to the middle of an edge and counts the other edges on the way: an even number, and
/// an arrival from the left, means inside. An edge for which a sign is too near zero is skipped.
fn place_in_ring(kind: GeometryKind, point: Vector, ring: &[Point]) -> Place {
    let edges: Vec<(Vector, Vector)> = edges(ring).map(|(from, to)| (from.vector, to.vector)).collect();
    if edges.iter().any(|edge| is_on_edge(kind, point, *edge)) {
        return Place::Boundary;
    }
    for (index, &(a, b)) in edges.iter().enumerate() {
        let target = between(kind, a, b);
        let side = turn(a, b, point);
        if side == 0.0 || (kind == GeometryKind::Geography && dot(point, target) < NEARLY_OPPOSITE) {
            continue;
        }
        if let Some(crossings) = crossings(kind, &edges, index, (point, target)) {
            let is_left = side > 0.0;
            return if is_left == crossings.is_multiple_of(2) { Place::Inside } else { Place::Outside };
        }
    }
    // A small ring on the other side of the globe: the point is on its larger side.
    if signed_area(ring, kind) < 0.0 { Place::Inside } else { Place::Outside }
}

/// A point on an edge, a little off its middle: shapes like symmetry, and the walk must not hit a corner.
fn between(kind: GeometryKind, a: Vector, b: Vector) -> Vector {
    const SHARE: f64 = 0.487_139;
    let point = [0, 1, 2].map(|axis| a[axis] + (b[axis] - a[axis]) * SHARE);
    match kind {
        GeometryKind::Geometry => point,
        GeometryKind::Geography => {
            let length = length(point);
            point.map(|coordinate| coordinate / length)
        }
    }
}

/// The number of other edges that the path crosses; `None` when it meets a corner. An edge in line with the
/// start, which is on no edge, is not crossed: on the globe its great circle meets that of the path only at
/// the start and opposite of it.
fn crossings(
    kind: GeometryKind,
    edges: &[(Vector, Vector)],
    except: usize,
    way: (Vector, Vector),
) -> Option<usize> {
    let mut count = 0;
    for (index, &edge) in edges.iter().enumerate() {
        if index == except {
            continue;
        }
        let is_corner = |corner| turn(way.0, way.1, corner) == 0.0;
        if is_corner(edge.0) || is_corner(edge.1) {
            return None;
        }
        count += usize::from(!is_in_line(kind, way.0, edge) && do_cross(way, edge));
    }
    Some(count)
}

fn place_in_polygon(kind: GeometryKind, point: Vector, polygon: &Polygon) -> Place {
    let mut place = Place::Inside;
    for ring in &polygon.rings {
        match place_in_ring(kind, point, ring) {
            Place::Outside => return Place::Outside,
            Place::Boundary => place = Place::Boundary,
            Place::Inside => {}
        }
    }
    place
}

/// Where a point is in a shape: points have an inside only, and the boundary of an open line is its two ends.
fn place_in(shape: &Shape, point: Vector) -> Place {
    let kind = shape.kind;
    let is_at = |other: &Point| length(minus(other.vector, point)) <= tolerance(kind, point);
    let mut best = Place::Outside;
    if shape.points.iter().any(is_at) {
        return Place::Inside;
    }
    for line in &shape.lines {
        if edges(line).any(|(from, to)| is_on_edge(kind, point, (from.vector, to.vector))) {
            let (first, last) = (&line[0], &line[line.len() - 1]);
            if is_same(kind, first, last) || !(is_at(first) || is_at(last)) {
                return Place::Inside;
            }
            best = Place::Boundary;
        }
    }
    for polygon in &shape.polygons {
        match place_in_polygon(kind, point, polygon) {
            Place::Inside => return Place::Inside,
            Place::Boundary => best = Place::Boundary,
            Place::Outside => {}
        }
    }
    best
}

/// Whether two shapes have a point in common. Where no edges meet, each part is entirely inside or outside of
/// the other.
pub(super) fn intersect(left: &Shape, right: &Shape) -> bool {
    let has_part_in = |shape: &Shape, whole: &Shape| {
        shape.parts().any(|point| place_in(whole, point.vector) != Place::Outside)
    };
    has_part_in(left, right) || has_part_in(right, left) || do_edges_meet(left, right)
}

fn do_edges_meet(left: &Shape, right: &Shape) -> bool {
    let edge = |(from, to): (&Point, &Point)| (from.vector, to.vector);
    left.edges().map(edge).any(|first| {
        right.edges().map(edge).any(|second| {
            !is_far(first, second) && (do_cross(first, second) || do_touch(left.kind, first, second))
        })
    })
}

/// True for edges whose first ends are farther apart than both are long: an arc is at most π/2 times its
/// chord.
fn is_far(first: (Vector, Vector), second: (Vector, Vector)) -> bool {
    let reach = length(minus(first.1, first.0)) + length(minus(second.1, second.0));
    length(minus(second.0, first.0)) > reach * 1.6
}

/// Whether every point of `part` is in `whole`, and not all of them on its boundary.
pub(super) fn is_within(part: &Shape, whole: &Shape) -> bool {
    let kind = part.kind;
    let mut has_inside = false;
    let middles = part.edges().map(|(from, to)| between(kind, from.vector, to.vector));
    for point in part.vertices().map(|vertex| vertex.vector).chain(middles) {
        match place_in(whole, point) {
            Place::Outside => return false,
            Place::Inside => has_inside = true,
            Place::Boundary => {}
        }
    }
    let leaves = part.edges().any(|first| {
        let first = (first.0.vector, first.1.vector);
        let rings = whole.polygons.iter().flat_map(|polygon| &polygon.rings);
        rings.flat_map(|ring| edges(ring)).any(|(c, d)| do_cross(first, (c.vector, d.vector)))
    });
    if leaves {
        return false;
    }
    if part.polygons.is_empty() {
        return has_inside;
    }
    // Only areas contain an area, and a hole of the whole must not be inside the part.
    let surrounds_boundary = whole.vertices().any(|vertex| {
        part.polygons.iter().any(|polygon| place_in_polygon(kind, vertex.vector, polygon) == Place::Inside)
    });
    let is_over_hole = || inner_point(part).is_none_or(|point| place_in(whole, point) != Place::Inside);
    !whole.polygons.is_empty() && !surrounds_boundary && (has_inside || !is_over_hole())
}

/// A point inside the first polygon: a little to the left of an edge.
fn inner_point(shape: &Shape) -> Option<Vector> {
    const STEP: f64 = 1e-4;
    let polygon = shape.polygons.first()?;
    edges(polygon.rings.first()?).find_map(|(from, to)| {
        let (a, b) = (from.vector, to.vector);
        let middle = between(shape.kind, a, b);
        let along = minus(b, a);
        let left = match shape.kind {
            GeometryKind::Geometry => [-along[1], along[0], 0.0],
            GeometryKind::Geography => cross(middle, along),
        };
        let point = [0, 1, 2].map(|axis| middle[axis] + left[axis] * STEP);
        (place_in_polygon(shape.kind, point, polygon) == Place::Inside).then_some(point)
    })
}

/// The mistake in a polygon whose rings are closed: the first ring that meets itself or another, or a hole
/// outside.
pub(super) fn fault_of_rings(shape: &Shape) -> Option<String> {
    let kind = shape.kind;
    for polygon in &shape.polygons {
        let mut before: Vec<(Vector, Vector)> = Vec::new();
        for (index, ring) in polygon.rings.iter().enumerate() {
            let own: Vec<_> = edges(ring).map(|(from, to)| (from.vector, to.vector)).collect();
            let number = index + 1;
            if does_meet_itself(kind, &own) {
                return Some(format!(
                    "The Polygon input is not valid because the ring number {number} intersects itself."
                ));
            }
            let does_cross = own.iter().any(|first| before.iter().any(|second| do_cross(*first, *second)));
            let is_outside = index > 0
                && ring
                    .iter()
                    .any(|point| place_in_ring(kind, point.vector, &polygon.rings[0]) == Place::Outside);
            if does_cross || is_outside {
                return Some(format!(
                    "The Polygon input is not valid because the ring number {number} is not inside of the first ring, or \
                     intersects another."
                ));
            }
            before.extend(own);
        }
    }
    None
}

/// Edges that follow each other share a corner; any others must not meet, and a corner must not turn back on itself.
fn does_meet_itself(kind: GeometryKind, edges: &[(Vector, Vector)]) -> bool {
    let count = edges.len();
    for (index, &first) in edges.iter().enumerate() {
        for (other, &second) in edges.iter().enumerate().skip(index + 1) {
            let meets = if other == index + 1 {
                is_on_edge(kind, second.1, first) || is_on_edge(kind, first.0, second)
            } else if index == 0 && other == count - 1 {
                is_on_edge(kind, second.0, first) || is_on_edge(kind, first.1, second)
            } else {
                do_cross(first, second) || do_touch(kind, first, second)
            };
            if meets {
                return true;
            }
        }
    }
    false
}

/// The angle between two points of the unit sphere.
pub(super) fn angle(a: Vector, b: Vector) -> f64 {
    2.0 * (length(minus(a, b)) / 2.0).min(1.0).asin()
}

/// The angle to the great circle of an edge, if the foot of the perpendicular is on the edge.
pub(super) fn angle_to_edge(point: Vector, (a, b): (Vector, Vector)) -> Option<f64> {
    let normal = cross(a, b);
    let size = length(normal);
    let is_beside = dot(cross(normal, a), point) >= 0.0 && dot(cross(b, normal), point) >= 0.0;
    (size > 0.0 && is_beside).then(|| (turn(a, b, point).abs() / size).min(1.0).asin())
}
