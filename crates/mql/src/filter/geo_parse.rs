//! GeoJSON and legacy coordinates to shapes.

use super::geo_shape::{Point, Shape, Space, is_against_the_clock};
use crate::error::{BAD_VALUE, Result, error, fail};
use crate::value::{Document, Value};

/// The shape that a filter names.
#[derive(Debug)]
pub(super) enum Query {
    Shape(Shape, Space),
    /// All of the sphere but a polygon.
    Beyond(Shape),
    /// Corners in a plane, in the order of their sides, which may cross one another.
    FlatPolygon(Vec<Point>),
    /// Centre and radius: of a sphere in radians, of a plane in its unit.
    Circle(Point, f64, Space),
}

/// The shape that a `$geoWithin` or `$geoIntersects` names.
pub(super) fn parse_query(name: &str, operand: &Value, within: bool) -> Result<Query> {
    let Value::Document(operand) = operand else {
        fail!(BAD_VALUE, "geometry must be an object: {name}: {operand}");
    };
    let Some((kind, shape)) = operand.first() else {
        fail!(BAD_VALUE, "{name} needs a geometry");
    };
    match &**kind {
        "$geometry" => {
            let query = parse_geometry(shape)?;
            if within && matches!(&query, Query::Shape(shape, _) if shape.polygons.is_empty()) {
                fail!(BAD_VALUE, "$geoWithin not supported with provided geometry: {shape}");
            }
            Ok(query)
        }
        "$box" if within => parse_box(shape),
        "$polygon" if within => parse_polygon(shape),
        "$center" | "$centerSphere" if within => parse_circle(kind, shape),
        other => fail!(BAD_VALUE, "unknown geo specifier: {other}"),
    }
}

fn parse_geometry(shape: &Value) -> Result<Query> {
    let geometry = match shape {
        Value::Document(geometry) if geometry.has("type") || geometry.has("coordinates") => geometry,
        // Coordinates without a type are a pair.
        pair => {
            let places = vec![flat_point(pair)?];
            return Ok(Query::Shape(Shape { places, ..Shape::default() }, Space::Sphere));
        }
    };
    let is_strict = check_crs(geometry)?;
    let parsed = geojson(geometry)?;
    if is_strict {
        let ([rings], Some("Polygon")) = (&parsed.polygons[..], geometry.get("type").and_then(Value::as_str))
        else {
            fail!(BAD_VALUE, "strict winding order is only supported by polygons: {geometry}");
        };
        let [ring] = &rings[..] else {
            fail!(BAD_VALUE, "a polygon with strict winding order has one loop: {geometry}");
        };
        if !is_against_the_clock(ring) {
            return Ok(Query::Beyond(parsed));
        }
    }
    if !parsed.polygons.iter().all(|rings| Space::Sphere.is_simple(rings)) {
        fail!(BAD_VALUE, "the edges of a polygon cross, or a hole lies outside of it: {geometry}");
    }
    Ok(Query::Shape(parsed, Space::Sphere))
}

/// Whether the inside of a polygon is on the left of its edges, however large that is.
fn check_crs(geometry: &Document) -> Result<bool> {
    let Some(crs) = geometry.get("crs") else { return Ok(false) };
    let name = crs
        .as_document()
        .filter(|crs| crs.get("type").and_then(Value::as_str) == Some("name"))
        .and_then(|crs| crs.get("properties")?.as_document()?.get("name")?.as_str().map(str::to_owned));
    match name.as_deref() {
        Some("urn:ogc:def:crs:OGC:1.3:CRS84" | "EPSG:4326") => Ok(false),
        Some("urn:x-mongodb:crs:strictwinding:EPSG:4326") => Ok(true),
        _ => fail!(BAD_VALUE, "Unknown CRS name: {crs}"),
    }
}

/// The shape of a value of a document, if it is one.
pub(super) fn document_shape(value: &Value) -> Option<Shape> {
    if let Value::Document(document) = value
        && document.has("type")
        && let Ok(shape) = geojson(document)
    {
        return Some(shape);
    }
    legacy(value).map(|point| Shape { places: vec![point], ..Shape::default() })
}

/// All members of an array or a document, where each is a number; as a query writes pairs.
pub(super) fn flat_numbers(value: &Value) -> Option<Vec<f64>> {
    match value {
        Value::Array(items) => items.iter().map(Value::to_f64).collect(),
        Value::Document(document) => document.iter().map(|(_, value)| value.to_f64()).collect(),
        _ => None,
    }
}

/// The point that a query writes as GeoJSON; where no type is given it is one.
pub(super) fn geojson_point(geometry: &Document) -> Option<Point> {
    let is_point = match geometry.get("type") {
        None => true,
        Some(kind) => kind.as_str() == Some("Point"),
    };
    if !is_point || check_crs(geometry).is_err() {
        return None;
    }
    position(geometry.get("coordinates")?).ok()
}

/// A pair of numbers, in an array or as the first members of a document.
fn legacy(value: &Value) -> Option<Point> {
    let numbers: Vec<f64> = match value {
        Value::Array(items) => items.iter().take(2).filter_map(Value::to_f64).collect(),
        Value::Document(document) => {
            document.iter().take(2).filter_map(|(_, value)| value.to_f64()).collect()
        }
        _ => return None,
    };
    match numbers[..] {
        [x, y] => Some((x, y)),
        _ => None,
    }
}

fn geojson(geometry: &Document) -> Result<Shape> {
    let wrong = |words: &str| error!(BAD_VALUE, "{words}: {geometry}");
    let kind =
        geometry.get("type").and_then(Value::as_str).ok_or_else(|| wrong("GeoJSON type must be a string"))?;
    let mut shape = Shape::default();
    if kind == "GeometryCollection" {
        let parts = geometry.get("geometries").and_then(Value::as_array);
        let parts = parts.filter(|parts| !parts.is_empty());
        for part in
            parts.ok_or_else(|| wrong("GeometryCollection geometries must be a non-empty array"))?.iter()
        {
            let part = part.as_document().ok_or_else(|| wrong("a geometry must be an object"))?;
            let inner = geojson(part)?;
            shape.places.extend(inner.places);
            shape.lines.extend(inner.lines);
            shape.polygons.extend(inner.polygons);
        }
        return Ok(shape);
    }
    let coordinates = geometry.get("coordinates");
    let coordinates = coordinates.filter(|value| kind == "Point" || value.as_array().is_some());
    let whole = match coordinates {
        Some(list @ Value::Array(_)) => list.clone(),
        // The first two members, by whatever names.
        Some(Value::Document(members)) => {
            Value::array(members.iter().take(2).map(|(_, value)| value.clone()).collect())
        }
        _ => return Err(wrong("GeoJSON coordinates must be an array")),
    };
    match kind {
        "Point" => shape.places.push(position(&whole)?),
        "MultiPoint" => shape.places = list(&whole, position)?,
        "LineString" => shape.lines.push(line(&whole)?),
        "MultiLineString" => shape.lines = list(&whole, line)?,
        "Polygon" => shape.polygons.push(list(&whole, ring)?),
        "MultiPolygon" => shape.polygons = list(&whole, |polygon| list(polygon, ring))?,
        _ => return Err(wrong("unknown GeoJSON type")),
    }
    Ok(shape)
}

/// A place on the sphere.
fn position(value: &Value) -> Result<Point> {
    let items = value.as_array().ok_or_else(|| error!(BAD_VALUE, "Point must be an array: {value}"))?;
    let numbers: Option<Vec<f64>> = items.iter().map(Value::to_f64).collect();
    match numbers.as_deref() {
        Some([longitude, latitude, ..]) => {
            if !(-180.0..=180.0).contains(longitude) || !(-90.0..=90.0).contains(latitude) {
                fail!(BAD_VALUE, "longitude/latitude is out of bounds, lng: {longitude} lat: {latitude}");
            }
            Ok((*longitude, *latitude))
        }
        _ => fail!(BAD_VALUE, "Point must only contain numeric elements, at least two: {value}"),
    }
}

fn list<T>(value: &Value, each: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    match value {
        Value::Array(items) if !items.is_empty() => items.iter().map(each).collect(),
        other => fail!(BAD_VALUE, "GeoJSON coordinates must be a non-empty array: {other}"),
    }
}

fn line(value: &Value) -> Result<Vec<Point>> {
    let points = list(value, position)?;
    let mut distinct = points.clone();
    distinct.dedup();
    if distinct.len() < 2 {
        fail!(BAD_VALUE, "GeoJSON LineString must have at least 2 vertices: {value}");
    }
    Ok(points)
}

fn ring(value: &Value) -> Result<Vec<Point>> {
    let points = list(value, position)?;
    if points.first() != points.last() {
        fail!(BAD_VALUE, "Loop is not closed: {value}");
    }
    let mut distinct = points.clone();
    distinct.dedup();
    if distinct.len() < 4 {
        fail!(BAD_VALUE, "Loop must have at least 3 different vertices: {value}");
    }
    Ok(distinct)
}

/// Numbered or named members as a list.
fn members(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items.to_vec()),
        Value::Document(document) => Some(document.iter().map(|(_, value)| value.clone()).collect()),
        _ => None,
    }
}

fn flat_point(value: &Value) -> Result<Point> {
    let items =
        members(value).ok_or_else(|| error!(BAD_VALUE, "Point must be an array or object: {value}"))?;
    match (items.first().and_then(Value::to_f64), items.get(1).and_then(Value::to_f64)) {
        (Some(x), Some(y)) if items.len() == 2 && x.is_finite() && y.is_finite() => Ok((x, y)),
        _ => fail!(BAD_VALUE, "Point must contain two finite numbers: {value}"),
    }
}

fn parse_box(value: &Value) -> Result<Query> {
    let corners =
        members(value).ok_or_else(|| error!(BAD_VALUE, "$box must be an array or object: {value}"))?;
    let [low, high, ..] = &corners[..] else { fail!(BAD_VALUE, "$box needs two points: {value}") };
    let ((a, b), (c, d)) = (flat_point(low)?, flat_point(high)?);
    let (left, right, bottom, top) = (a.min(c), a.max(c), b.min(d), b.max(d));
    let ring = vec![(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)];
    Ok(Query::Shape(Shape { polygons: vec![vec![ring]], ..Shape::default() }, Space::Plane))
}

fn parse_polygon(value: &Value) -> Result<Query> {
    let points =
        members(value).ok_or_else(|| error!(BAD_VALUE, "$polygon must be an array or object: {value}"))?;
    let points: Result<Vec<Point>> = points.iter().map(flat_point).collect();
    let corners = points?;
    if corners.len() < 3 {
        fail!(BAD_VALUE, "Polygon must have at least 3 points: {value}");
    }
    Ok(Query::FlatPolygon(corners))
}

fn parse_circle(kind: &str, value: &Value) -> Result<Query> {
    let parts =
        members(value).ok_or_else(|| error!(BAD_VALUE, "{kind} must be an array or object: {value}"))?;
    let [centre, radius] = &parts[..] else {
        fail!(BAD_VALUE, "{kind} needs a centre and a radius: {value}")
    };
    let radius = match radius.to_f64() {
        Some(radius) if radius >= 0.0 && (radius.is_finite() || kind == "$center") => radius,
        _ => fail!(BAD_VALUE, "radius must be a non-negative number: {radius}"),
    };
    if kind == "$center" {
        return Ok(Query::Circle(flat_point(centre)?, radius, Space::Plane));
    }
    let centre = match centre {
        Value::Document(geometry) if geometry.has("type") => {
            let shape = geojson(geometry)?;
            *shape.places.first().ok_or_else(|| error!(BAD_VALUE, "{kind} needs a point: {value}"))?
        }
        other => flat_point(other)?,
    };
    position(&Value::array(vec![Value::Double(centre.0), Value::Double(centre.1)]))?;
    Ok(Query::Circle(centre, radius, Space::Sphere))
}
