//! Shapes of points, lines and polygons, in a plane or on a sphere.

pub(super) type Point = (f64, f64);
type Vector = [f64; 3];

/// Places, lines and polygons; the first ring of a polygon is its outside, the others are holes.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub places: Vec<Point>,
    pub lines: Vec<Vec<Point>>,
    pub polygons: Vec<Vec<Vec<Point>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Plane,
    Sphere,
}

/// Corners of a ring up to which its sides are compared with one another.
pub(super) const CORNERS_COMPARED_MAX: usize = 500;
/// Values below this count as zero.
const NEARLY: f64 = 1e-12;

impl Shape {
    /// All corners.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let rings = self.polygons.iter().flatten();
        self.places.iter().chain(self.lines.iter().chain(rings).flatten()).copied()
    }

    pub fn has_points_alone(&self) -> bool {
        self.lines.is_empty() && self.polygons.is_empty()
    }

    /// How far the nearest point of the shape is; `None` for a shape without one. In radians on the sphere.
    pub fn distance(&self, from: Point, space: Space) -> Option<f64> {
        if self.polygons.iter().any(|polygon| space.is_in_polygon(polygon, from)) {
            return Some(0.0);
        }
        let places = self.places.iter().map(|place| space.distance(from, *place));
        let sides = self.sides().map(|side| space.distance_to_side(from, side));
        places.chain(sides).min_by(f64::total_cmp)
    }

    /// All sides of lines and rings.
    fn sides(&self) -> impl Iterator<Item = (Point, Point)> + '_ {
        let lines = self.lines.iter().chain(self.polygons.iter().flatten());
        lines.flat_map(|line| line.windows(2).map(|pair| (pair[0], pair[1])))
    }
}

fn vector((longitude, latitude): Point) -> Vector {
    let (longitude, latitude) = (longitude.to_radians(), latitude.to_radians());
    [latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn angle(left: Vector, right: Vector) -> f64 {
    let normal = cross(left, right);
    dot(normal, normal).sqrt().atan2(dot(left, right))
}

/// The point of the shorter arc between two points that is nearest to a third one.
fn nearest_of_arc(from: Vector, start: Vector, end: Vector) -> Vector {
    let plus = |left: Vector, right: Vector| [left[0] + right[0], left[1] + right[1], left[2] + right[2]];
    let times = |factor: f64, vector: Vector| vector.map(|part| factor * part);
    // More exact than the product of the two where they are close to each other.
    let normal = cross(plus(end, start), plus(end, times(-1.0, start)));
    let square = dot(normal, normal);
    if square > 0.0 {
        let projected = plus(from, times(-dot(from, normal) / square, normal));
        let is_left = |a: Vector, b: Vector, c: Vector| dot(cross(c, a), b) > 0.0;
        if is_left(normal, start, projected) && is_left(projected, end, normal) {
            return times(1.0 / dot(projected, projected).sqrt(), projected);
        }
    }
    let square_distance = |point: Vector| {
        let way = plus(from, times(-1.0, point));
        dot(way, way)
    };
    if square_distance(start) <= square_distance(end) { start } else { end }
}

impl Space {
    /// In radians on the sphere.
    pub fn distance(self, left: Point, right: Point) -> f64 {
        match self {
            Space::Plane => (left.0 - right.0).hypot(left.1 - right.1),
            Space::Sphere => angle(vector(left), vector(right)),
        }
    }

    /// The middle of the side between two points.
    fn middle(self, left: Point, right: Point) -> Point {
        if self == Space::Plane {
            return ((left.0 + right.0) / 2.0, (left.1 + right.1) / 2.0);
        }
        let (left, right) = (vector(left), vector(right));
        let [x, y, z] = [0, 1, 2].map(|axis| left[axis] + right[axis]);
        (y.atan2(x).to_degrees(), z.atan2(x.hypot(y)).to_degrees())
    }

    /// How far the nearest point of a side is.
    fn distance_to_side(self, from: Point, (start, end): (Point, Point)) -> f64 {
        match self {
            Space::Plane => {
                let (x, y) = (end.0 - start.0, end.1 - start.1);
                let length = x * x + y * y;
                let along = ((from.0 - start.0) * x + (from.1 - start.1) * y) / length;
                let along = if length > 0.0 { along.clamp(0.0, 1.0) } else { 0.0 };
                self.distance(from, (start.0 + along * x, start.1 + along * y))
            }
            Space::Sphere => {
                let own = vector(from);
                angle(own, nearest_of_arc(own, vector(start), vector(end)))
            }
        }
    }

    /// On which side of the line through two points a third one lies: 1, −1, or 0 on the line.
    fn side(self, from: Point, to: Point, point: Point) -> i32 {
        let turn = match self {
            Space::Plane => (to.0 - from.0) * (point.1 - from.1) - (to.1 - from.1) * (point.0 - from.0),
            Space::Sphere => dot(cross(vector(from), vector(to)), vector(point)),
        };
        i32::from(turn > NEARLY) - i32::from(turn < -NEARLY)
    }

    /// Whether a point lies on the side between two points.
    fn is_on(self, from: Point, to: Point, point: Point) -> bool {
        let length = self.distance(from, to);
        let way = self.distance(from, point) + self.distance(point, to);
        (way - length).abs() < 1e-10 && self.side(from, to, point) == 0
    }

    /// Whether two sides cross, each in the inside of the other.
    fn cross(self, (a, b): (Point, Point), (c, d): (Point, Point)) -> bool {
        let sides = [self.side(a, b, c), self.side(a, b, d), self.side(c, d, a), self.side(c, d, b)];
        if sides.contains(&0) || sides[0] == sides[1] || sides[2] == sides[3] {
            return false;
        }
        // On a sphere the great circles also meet on the other side.
        self == Space::Plane || sides[0] == -sides[2] && self.distance(a, c) < std::f64::consts::PI
    }

    /// Whether two sides have a point in common.
    fn touch(self, left: (Point, Point), right: (Point, Point)) -> bool {
        self.cross(left, right)
            || self.is_on(left.0, left.1, right.0)
            || self.is_on(left.0, left.1, right.1)
            || self.is_on(right.0, right.1, left.0)
            || self.is_on(right.0, right.1, left.1)
    }

    /// Whether two sides of a ring cross that are not next to each other.
    pub fn crosses_itself(self, ring: &[Point]) -> bool {
        let sides: Vec<(Point, Point)> = ring.windows(2).map(|pair| (pair[0], pair[1])).collect();
        sides
            .iter()
            .enumerate()
            .any(|(at, side)| sides[at + 1..].iter().any(|other| self.cross(*side, *other)))
    }

    fn is_on_ring(self, ring: &[Point], point: Point) -> bool {
        ring.windows(2).any(|pair| self.is_on(pair[0], pair[1], point))
    }

    /// Whether a point lies inside a ring; its edge counts.
    fn is_in_ring(self, ring: &[Point], point: Point) -> bool {
        self.is_on_ring(ring, point) || self.winding(ring, point)
    }

    /// The sum of the angles under which a point sees the sides of a ring: a full turn inside, none outside.
    fn winding(self, ring: &[Point], point: Point) -> bool {
        let angle = |from: Point, to: Point| match self {
            Space::Plane => {
                let (a, b) = ((from.0 - point.0, from.1 - point.1), (to.0 - point.0, to.1 - point.1));
                (a.0 * b.1 - a.1 * b.0).atan2(a.0 * b.0 + a.1 * b.1)
            }
            Space::Sphere => {
                let own = vector(point);
                let (a, b) = (cross(own, vector(from)), cross(own, vector(to)));
                dot(cross(a, b), own).atan2(dot(a, b))
            }
        };
        let sum: f64 = ring.windows(2).map(|pair| angle(pair[0], pair[1])).sum();
        if sum.abs() < std::f64::consts::PI {
            return false;
        }
        // The point opposite of a point inside sees a full turn as well; a ring is less than half the sphere.
        self == Space::Plane
            || ring.iter().map(|corner| dot(vector(*corner), vector(point))).sum::<f64>() > 0.0
    }

    /// Whether a polygon is valid in a query: its sides do not cross, and its holes lie in it.
    pub fn is_simple(self, rings: &[Vec<Point>]) -> bool {
        let Some((outside, holes)) = rings.split_first() else { return false };
        let is_within = |hole: &Vec<Point>| hole.iter().all(|corner| self.is_in_ring(outside, *corner));
        holes.iter().all(is_within)
            && !rings.iter().any(|ring| ring.len() <= CORNERS_COMPARED_MAX && self.crosses_itself(ring))
    }

    fn is_in_polygon(self, rings: &[Vec<Point>], point: Point) -> bool {
        let Some((outside, holes)) = rings.split_first() else { return false };
        self.is_in_ring(outside, point)
            && !holes.iter().any(|hole| self.is_in_ring(hole, point) && !self.is_on_ring(hole, point))
    }
}

/// Whether a ring on the sphere goes around its smaller side against the clock, seen from outside.
pub(super) fn is_against_the_clock(ring: &[Point]) -> bool {
    let corners: Vec<Vector> = ring.iter().map(|corner| vector(*corner)).collect();
    let (mut area, mut middle) = ([0.0; 3], [0.0; 3]);
    for pair in corners.windows(2) {
        let normal = cross(pair[0], pair[1]);
        for axis in 0..3 {
            area[axis] += normal[axis];
            middle[axis] += pair[0][axis];
        }
    }
    dot(area, middle) > 0.0
}

/// Whether a point in the plane is a corner of a polygon, lies on a level or an upright side, or has a ray to the right that crosses
/// an odd number of sides: the reference's rule, by which points of slanting sides are inside or not as the rays count them.
pub(super) fn is_in_flat_polygon(corners: &[Point], (x, y): Point) -> bool {
    let sides = || corners.iter().zip(corners.iter().cycle().skip(1));
    let is_between = |one: f64, other: f64, number: f64| one.min(other) <= number && number <= one.max(other);
    let is_on = |((ax, ay), (bx, by)): (&Point, &Point)| {
        (ay == by || ax == bx) && is_between(*ax, *bx, x) && is_between(*ay, *by, y)
    };
    let crosses = |((ax, ay), (bx, by)): &(&Point, &Point)| {
        y > ay.min(*by) && y <= ay.max(*by) && x <= (y - ay) * (bx - ax) / (by - ay) + ax
    };
    corners.contains(&(x, y)) || sides().any(is_on) || sides().filter(crosses).count() % 2 == 1
}

/// Whether a shape lies inside the polygons of another.
pub(super) fn within(shape: &Shape, query: &Shape, space: Space) -> bool {
    let is_inside = |point| query.polygons.iter().any(|polygon| space.is_in_polygon(polygon, point));
    shape.points().all(is_inside)
        && !shape.sides().any(|side| query.sides().any(|other| space.cross(side, other)))
        && !query.polygons.iter().flat_map(|rings| rings.iter().skip(1)).flatten().any(|corner| {
            shape.polygons.iter().any(|polygon| {
                space.is_in_polygon(polygon, *corner)
                    && !polygon.iter().any(|ring| space.is_on_ring(ring, *corner))
            })
        })
}

/// Whether a point lies inside of one of the polygons, and not on its edge.
fn is_strictly_inside(polygons: &[Vec<Vec<Point>>], point: Point, space: Space) -> bool {
    polygons.iter().any(|polygon| {
        space.is_in_polygon(polygon, point) && !polygon.iter().any(|ring| space.is_on_ring(ring, point))
    })
}

/// A point inside of a polygon: between two neighbours of a corner.
fn inner_point(polygon: &Vec<Vec<Point>>, space: Space) -> Option<Point> {
    let corners = polygon.first()?.windows(3);
    let mut candidates = corners.map(|three| space.middle(space.middle(three[0], three[2]), three[1]));
    candidates.find(|point| is_strictly_inside(std::slice::from_ref(polygon), *point, space))
}

/// Whether the insides of polygons have a point in common: polygons that only touch do not intersect.
fn overlap(left: &Shape, right: &Shape, space: Space) -> bool {
    let middle = |(start, end): (Point, Point)| space.middle(start, end);
    let reaches_into = |shape: &Shape, other: &Shape| {
        let inner = shape.polygons.iter().filter_map(|polygon| inner_point(polygon, space));
        let points = shape.points().chain(shape.sides().map(middle)).chain(inner);
        points.into_iter().any(|point| is_strictly_inside(&other.polygons, point, space))
    };
    reaches_into(left, right)
        || reaches_into(right, left)
        || left.sides().any(|side| right.sides().any(|other| space.cross(side, other)))
}

/// Whether two shapes have a point in common.
pub(super) fn intersects(left: &Shape, right: &Shape, space: Space) -> bool {
    let are_polygons = |shape: &Shape| shape.places.is_empty() && shape.lines.is_empty();
    if are_polygons(left) && are_polygons(right) {
        return overlap(left, right, space);
    }
    let covers = |shape: &Shape, point: Point| {
        shape.places.iter().any(|place| space.distance(*place, point) < NEARLY)
            || shape.lines.iter().any(|line| space.is_on_ring(line, point))
            || shape.polygons.iter().any(|polygon| space.is_in_polygon(polygon, point))
    };
    left.points().any(|point| covers(right, point))
        || right.points().any(|point| covers(left, point))
        || left.sides().any(|side| right.sides().any(|other| space.touch(side, other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(size: f64) -> Shape {
        let ring = vec![(-size, -size), (size, -size), (size, size), (-size, size), (-size, -size)];
        Shape { polygons: vec![vec![ring]], ..Shape::default() }
    }

    #[test]
    fn squares_hold_what_is_inside_them() {
        for space in [Space::Plane, Space::Sphere] {
            let place = |x, y| Shape { places: vec![(x, y)], ..Shape::default() };
            assert!(within(&place(1.0, 2.0), &square(10.0), space));
            assert!(within(&place(10.0, 10.0), &square(10.0), space), "a corner belongs to the square");
            assert!(!within(&place(11.0, 0.0), &square(10.0), space));
            assert!(!within(&place(170.0, 0.0), &square(10.0), space), "the other side of the sphere");
            assert!(
                within(&square(5.0), &square(10.0), space) && !within(&square(10.0), &square(5.0), space)
            );
            assert!(intersects(&square(10.0), &square(5.0), space));
            assert!(intersects(&square(10.0), &square(10.0), space), "the same square");
            let moved = |x: f64, y: f64| Shape {
                polygons: vec![vec![
                    square(10.0).polygons[0][0].iter().map(|corner| (corner.0 + x, corner.1 + y)).collect(),
                ]],
                ..Shape::default()
            };
            assert!(!intersects(&square(10.0), &moved(20.0, 0.0), space), "a common side");
            assert!(
                !intersects(&square(10.0), &moved(0.0, 20.0), space),
                "a common side that is no meridian"
            );
            assert!(!intersects(&square(10.0), &moved(20.0, 20.0), space), "a common corner");
            assert!(
                intersects(&square(10.0), &moved(19.0, 0.0), space)
                    && intersects(&square(10.0), &moved(0.0, 5.0), space)
            );
            let line = Shape { lines: vec![vec![(-20.0, 0.0), (20.0, 0.0)]], ..Shape::default() };
            assert!(intersects(&line, &square(10.0), space) && !within(&line, &square(10.0), space));
        }
    }
}
