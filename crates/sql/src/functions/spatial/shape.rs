//! Reads GeoJSON into shapes and describes mistakes in their coordinates.
//!
//! A position is also kept as a vector (`ring.rs`), so that one set of tests serves both kinds of geometry: on the globe the point of the
//! unit sphere with its longitude and latitude, in the plane `(x, y, 1)`. Three vectors then turn left exactly when their
//! determinant is positive, and edges are great circles or straight lines.
//!
//! Rings are turned so that a polygon's inside is on the left of each of them. On the globe the order of the
//! outer ring determines which side is inside (counter-clockwise: the usual one); every hole is the smaller
//! of its two sides.

use shardlake_document::Number;

use crate::functions::call::elements;
use crate::functions::spatial::ring::{Point, signed_area};
use crate::value::context::GeometryKind;
use crate::value::datum::Datum;

/// Positions in one shape.
const POSITIONS_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Polygon {
    /// Closed: the last point is the first. The outer one comes first.
    pub rings: Vec<Vec<Point>>,
}

/// A valid shape. One of the three lists has something in it.
#[derive(Debug)]
pub(super) struct Shape {
    pub kind: GeometryKind,
    pub points: Vec<Point>,
    pub lines: Vec<Vec<Point>>,
    pub polygons: Vec<Polygon>,
}

/// The description of a mistake in the coordinates of valid GeoJSON.
pub(super) type Fault = String;

impl Shape {
    /// `None` if the value is not GeoJSON of a known type.
    pub fn read(datum: &Datum<'_>, kind: GeometryKind) -> Option<Result<Shape, Fault>> {
        let Datum::String(name) = datum.view().property("type") else { return None };
        let coordinates = datum.view().property("coordinates");
        let mut reader = Reader { kind, positions: 0 };
        let mut raw = Raw::default();
        match &*name {
            "Point" => raw.points.push(reader.position(&coordinates)?),
            "MultiPoint" => raw.points = reader.positions(&coordinates)?,
            "LineString" => raw.lines.push(reader.positions(&coordinates)?),
            "MultiLineString" => raw.lines = reader.rings(&coordinates)?,
            "Polygon" => raw.polygons.push(reader.rings(&coordinates)?),
            "MultiPolygon" => {
                for polygon in elements(&coordinates)? {
                    raw.polygons.push(reader.rings(&polygon)?);
                }
            }
            _ => return None,
        }
        Some(raw.check(kind))
    }

    /// The edges of lines and rings; an edge has two different ends.
    pub fn edges(&self) -> impl Iterator<Item = (&Point, &Point)> {
        let rings = self.polygons.iter().flat_map(|polygon| &polygon.rings);
        self.lines.iter().chain(rings).flat_map(|points| edges(points))
    }

    /// Whether it has no edge.
    pub fn is_points(&self) -> bool {
        self.lines.is_empty() && self.polygons.is_empty()
    }

    /// A position of each connected part.
    pub fn parts(&self) -> impl Iterator<Item = &Point> {
        let rings = self.polygons.iter().filter_map(|polygon| polygon.rings.first());
        self.points.iter().chain(self.lines.iter().chain(rings).filter_map(|points| points.first()))
    }

    /// Every position, the last one of a ring too.
    pub fn vertices(&self) -> impl Iterator<Item = &Point> {
        let rings = self.polygons.iter().flat_map(|polygon| &polygon.rings);
        self.points.iter().chain(self.lines.iter().chain(rings).flatten())
    }
}

pub(super) fn edges(points: &[Point]) -> impl Iterator<Item = (&Point, &Point)> {
    let pairs = points.windows(2).map(|pair| (&pair[0], &pair[1]));
    pairs.filter(|(from, to)| from.vector != to.vector)
}

/// Counts positions while it reads, so that the limit on kept positions holds.
struct Reader {
    kind: GeometryKind,
    positions: usize,
}

impl Reader {
    /// Two to four numbers; only the first two count.
    fn position(&mut self, datum: &Datum<'_>) -> Option<Point> {
        let mut numbers = elements(datum)?.map(|element| match element {
            Datum::Number(number) => Some(Number::as_f64(number)),
            _ => None,
        });
        let (x, y) = (numbers.next()??, numbers.next()??);
        let is_valid = numbers.by_ref().take(2).all(|number| number.is_some()) && numbers.next().is_none();
        self.positions += 1;
        is_valid.then(|| Point::new(self.kind, x, y))
    }

    /// One more than the limit is enough to see that there are too many.
    fn positions(&mut self, datum: &Datum<'_>) -> Option<Vec<Point>> {
        let left = (POSITIONS_MAX + 1).saturating_sub(self.positions);
        elements(datum)?.take(left).map(|position| self.position(&position)).collect()
    }

    fn rings(&mut self, datum: &Datum<'_>) -> Option<Vec<Vec<Point>>> {
        elements(datum)?.take(POSITIONS_MAX).map(|ring| self.positions(&ring)).collect()
    }
}

/// Coordinates as they were read.
#[derive(Default)]
struct Raw {
    points: Vec<Point>,
    lines: Vec<Vec<Point>>,
    polygons: Vec<Vec<Vec<Point>>>,
}

impl Raw {
    fn check(self, kind: GeometryKind) -> Result<Shape, Fault> {
        let all =
            || self.points.iter().chain(self.lines.iter().chain(self.polygons.iter().flatten()).flatten());
        let count = all().count();
        if count == 0 {
            return Err("The input does not have any position.".into());
        }
        if count > POSITIONS_MAX {
            return Err(format!("The input has more than {POSITIONS_MAX} positions."));
        }
        for point in all() {
            check_position(point, kind)?;
        }
        for line in &self.lines {
            if edges(line).next().is_none() {
                return Err(
                    "The LineString input is not valid because it does not have enough distinct points. A \
                            LineString must have at least two distinct points."
                        .into(),
                );
            }
        }
        let polygons = self.polygons.into_iter().map(|rings| check_polygon(rings, kind));
        Ok(Shape {
            kind,
            points: self.points,
            lines: self.lines,
            polygons: polygons.collect::<Result<_, _>>()?,
        })
    }
}

fn check_position(point: &Point, kind: GeometryKind) -> Result<(), Fault> {
    if !point.x.is_finite() || !point.y.is_finite() {
        return Err("Coordinates must be finite numbers.".into());
    }
    match kind {
        GeometryKind::Geometry => Ok(()),
        GeometryKind::Geography if point.y.abs() > 90.0 => {
            Err("Latitude values must be between -90 and 90 degrees.".into())
        }
        GeometryKind::Geography if point.x.abs() > 180.0 => {
            Err("Longitude values must be between -180 and 180 degrees.".into())
        }
        GeometryKind::Geography => Ok(()),
    }
}

fn check_polygon(mut rings: Vec<Vec<Point>>, kind: GeometryKind) -> Result<Polygon, Fault> {
    if rings.is_empty() {
        return Err("The Polygon input is not valid because it does not have any ring.".into());
    }
    for (index, ring) in rings.iter_mut().enumerate() {
        let number = index + 1;
        if ring.first().map(|point| (point.x, point.y)) != ring.last().map(|point| (point.x, point.y)) {
            return Err(format!(
                "The Polygon input is not valid because the start and end points of the ring number {number} are not the \
                 same. Each ring of a polygon must have the same start and end points."
            ));
        }
        if edges(ring).count() < 3 {
            return Err("The Polygon input is not valid because there are not enough distinct points. Each ring of a \
                        polygon must contain at least three distinct points."
                .into());
        }
        turn(ring, kind, index > 0);
    }
    Ok(Polygon { rings })
}

/// Puts the polygon's inside on the left.
fn turn(ring: &mut [Point], kind: GeometryKind, is_hole: bool) {
    let is_counter_clockwise = || signed_area(ring, kind) > 0.0;
    let is_wrong = match (kind, is_hole) {
        (GeometryKind::Geography, false) => false,
        (GeometryKind::Geometry, false) => !is_counter_clockwise(),
        (_, true) => is_counter_clockwise(),
    };
    if is_wrong {
        ring.reverse();
    }
}
