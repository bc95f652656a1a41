//! `$near` and `$nearSphere`: documents by their distance from a point, the nearest first.
//!
//! A filter holds one such condition at most, at its top or in an `$and` there. GeoJSON points are measured in metres
//! on the sphere, pairs of numbers in their own unit in a plane, or in radians with `$nearSphere`. The reference finds
//! the documents by an index and refuses the condition if there is none. Here the index is required too, but not read
//! (`Near::is_served_by`).

use super::geo_parse::{document_shape, flat_numbers, geojson_point};
use super::geo_shape::{Point, Space};
use crate::error::{BAD_VALUE, Result, error, fail};
use crate::path;
use crate::sort::SortKey;
use crate::value::{Document, Str, Value};

/// Radius of the sphere that the reference measures on.
const EARTH_RADIUS_METERS: f64 = 6_378_100.0;
/// The code of a condition in a place where it is not allowed.
pub(super) const NEAR_NOT_ALLOWED: i32 = 5_626_500;

/// A condition on the distance of a document.
#[derive(Clone, Debug)]
pub struct Near {
    field: Str,
    path: Vec<Str>,
    centre: Centre,
    /// Both are met by documents at exactly this distance: metres on the sphere, units of the plane.
    least: f64,
    most: f64,
}

#[derive(Clone, Copy, Debug)]
struct Centre {
    point: Point,
    space: Space,
    /// Given as GeoJSON, not as a pair of numbers.
    is_geojson: bool,
}

/// How far a document is.
#[derive(Clone, Debug)]
pub struct Distance {
    /// In metres, radians or units of the plane.
    pub shown: f64,
    /// The value of the document that is so far.
    pub place: Value,
    measured: f64,
}

fn is_near(name: &str) -> bool {
    matches!(name, "$near" | "$nearSphere" | "$geoNear")
}

/// Whether operators on a field begin with such a condition.
fn begins_with_near(value: &Value) -> Option<&Document> {
    let operators = value.as_document()?;
    let (name, operand) = operators.first()?;
    (is_near(name) && matches!(operand, Value::Document(_) | Value::Array(_))).then_some(&**operators)
}

/// Whether a filter has such a condition where it may stand.
pub(super) fn is_in(filter: &Document) -> bool {
    filter.iter().any(|(name, value)| match (&**name, value) {
        ("$and", Value::Array(parts)) => parts.iter().filter_map(Value::as_document).any(|part| is_in(part)),
        (name, value) => !name.starts_with('$') && begins_with_near(value).is_some(),
    })
}

/// The filter without such conditions, which are collected.
pub(super) fn taken_out(filter: &Document, found: &mut Vec<Near>) -> Result<Document> {
    let mut rest = Document::with_capacity(filter.len());
    for (name, value) in filter.iter() {
        match (&**name, value) {
            ("$and", Value::Array(parts)) => {
                let mut left = Vec::with_capacity(parts.len());
                for part in parts.iter() {
                    left.push(match part {
                        Value::Document(part) => Value::document(taken_out(part, found)?),
                        other => other.clone(),
                    });
                }
                rest.push(name.clone(), Value::array(left));
            }
            (field, value) if !field.starts_with('$') => match begins_with_near(value) {
                Some(operators) => found.push(Near::parse(field, operators)?),
                None => rest.push(name.clone(), value.clone()),
            },
            _ => rest.push(name.clone(), value.clone()),
        }
    }
    Ok(rest)
}

/// The parsed operators, before the field is known.
struct Parsed {
    centre: Centre,
    is_sphere: bool,
    least: f64,
    most: f64,
}

impl Near {
    /// Reads the operators on a field, such as `{$near: {$geometry: …}}` or `{$nearSphere: [1, 2], $maxDistance: 3}`.
    pub(crate) fn parse(field: &str, operators: &Document) -> Result<Near> {
        let mut parsed = match parse_legacy(operators)? {
            Some(parsed) => parsed,
            None => parse_geometry(operators)?,
        };
        if parsed.is_sphere && !parsed.centre.is_geojson {
            let (longitude, latitude) = parsed.centre.point;
            if !(-180.0..=180.0).contains(&longitude) || !(-90.0..=90.0).contains(&latitude) {
                fail!(17444, "Legacy point is out of bounds for spherical query");
            }
            parsed.centre.space = Space::Sphere;
            parsed.least *= EARTH_RADIUS_METERS;
            parsed.most *= EARTH_RADIUS_METERS;
        }
        let Parsed { centre, least, most, .. } = parsed;
        Ok(Near { field: field.into(), path: path::split_path(field), centre, least, most })
    }

    /// The field whose places are measured.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Whether an index may answer the condition: places on the sphere need one of the sphere, pairs in a plane one of the plane.
    fn is_served_by(&self, key: &Document) -> bool {
        key.iter().any(|(name, kind)| {
            **name == *self.field
                && match kind.as_str() {
                    Some("2dsphere") => self.centre.space == Space::Sphere,
                    Some("2d") => !self.centre.is_geojson,
                    _ => false,
                }
        })
    }

    /// Error 291 where no index of a collection may answer the condition.
    pub fn check_served(&self, indexes: &[Document]) -> Result<()> {
        let serves = |index: &Document| {
            let is_hidden = index.get("hidden").is_some_and(Value::is_true);
            index
                .get("key")
                .and_then(Value::as_document)
                .is_some_and(|key| !is_hidden && self.is_served_by(key))
        };
        match indexes.iter().any(serves) {
            true => Ok(()),
            false => fail!(
                291,
                "error processing query: planner returned error: unable to find index for $geoNear query on '{}'",
                self.field
            ),
        }
    }

    /// How far a document is; `None` if it has no place, or if its place is too near or too far.
    pub fn distance(&self, document: &Document) -> Option<Distance> {
        let mut nearest: Option<Distance> = None;
        path::walk(document, &self.path, &mut |reached| {
            match (document_shape(reached.value), reached.value) {
                (Some(_), value) => self.measure(value, &mut nearest),
                (None, Value::Array(items)) => {
                    items.iter().for_each(|item| self.measure(item, &mut nearest));
                }
                _ => {}
            }
            false
        });
        nearest.filter(|found| self.least <= found.measured && found.measured <= self.most)
    }

    fn measure(&self, value: &Value, nearest: &mut Option<Distance>) {
        let Some(shape) = document_shape(value) else { return };
        let Centre { point, space, is_geojson } = self.centre;
        let Some(distance) = shape.distance(point, space) else { return };
        let measured = if space == Space::Sphere { distance * EARTH_RADIUS_METERS } else { distance };
        let is_radians = space == Space::Sphere && !is_geojson;
        let shown = if is_radians { measured / EARTH_RADIUS_METERS } else { measured };
        if nearest.as_ref().is_none_or(|known| measured < known.measured) {
            *nearest = Some(Distance { shown, place: value.clone(), measured });
        }
    }

    pub(super) fn holds(&self, document: &Document) -> bool {
        self.distance(document).is_some()
    }

    /// The sort key of a document, in an order of one ascending field; documents without a place come last.
    pub fn sort_key(&self, document: &Document) -> SortKey {
        SortKey::of(Value::Double(self.distance(document).map_or(f64::INFINITY, |found| found.measured)))
    }
}

/// A point with its distances; `None` if the operand is not a point.
fn parse_legacy(operators: &Document) -> Result<Option<Parsed>> {
    let mut found = None;
    let (mut least, mut most, mut is_sphere) = (0.0, f64::INFINITY, false);
    for (name, value) in operators.iter() {
        match &**name {
            name if is_near(name) => {
                is_sphere = name == "$nearSphere";
                found = query_point(value).or(found);
                if let Some([x, y, limit]) = flat_numbers(value).as_deref()
                    && x.is_finite()
                    && y.is_finite()
                {
                    if limit.is_nan() || *limit < 0.0 {
                        fail!(18522, "max distance must be non-negative");
                    }
                    most = *limit;
                    found = Some(Centre { point: (*x, *y), space: Space::Plane, is_geojson: false });
                }
            }
            "$minDistance" => least = distance_of(name, value, [16893, 16894])?,
            "$maxDistance" => most = distance_of(name, value, [16895, 16896])?,
            "$uniqueDocs" => {}
            other => fail!(34413, "invalid argument in geo near query: {other}"),
        }
    }
    Ok(found.map(|centre| Parsed { centre, is_sphere, least, most }))
}

/// `{$near: {$geometry: …, $minDistance: …, $maxDistance: …}}`, with no other operators.
fn parse_geometry(operators: &Document) -> Result<Parsed> {
    if let Some((extra, _)) = operators.iter().nth(1) {
        fail!(
            BAD_VALUE,
            "geo near accepts just one argument when querying for a GeoJSON point. Extra field found: {extra}"
        );
    }
    let Some((name, Value::Document(members))) = operators.first() else {
        fail!(BAD_VALUE, "invalid point in geo near query: {operators}");
    };
    let (mut centre, mut least, mut most) = (None, 0.0, f64::INFINITY);
    for (member, value) in members.iter() {
        match &**member {
            "$geometry" => centre = Some(geometry(value)?),
            "$minDistance" => least = distance_of(member, value, [BAD_VALUE, BAD_VALUE])?,
            "$maxDistance" => most = distance_of(member, value, [BAD_VALUE, BAD_VALUE])?,
            other => fail!(BAD_VALUE, "invalid argument in geo near query: {other}"),
        }
    }
    let centre = centre.ok_or_else(|| error!(BAD_VALUE, "$geometry is required for geo near query"))?;
    Ok(Parsed { centre, is_sphere: &**name == "$nearSphere", least, most })
}

fn geometry(value: &Value) -> Result<Centre> {
    let point = query_point(value)
        .ok_or_else(|| error!(BAD_VALUE, "invalid point in geo near query $geometry argument: {value}"))?;
    if !point.is_geojson {
        fail!(16681, "$near requires geojson point, given {value}");
    }
    Ok(point)
}

/// Two numbers, or a GeoJSON point.
fn query_point(value: &Value) -> Option<Centre> {
    if let Some([x, y]) = flat_numbers(value).as_deref() {
        let is_finite = x.is_finite() && y.is_finite();
        return is_finite.then_some(Centre { point: (*x, *y), space: Space::Plane, is_geojson: false });
    }
    let point = geojson_point(value.as_document()?)?;
    Some(Centre { point, space: Space::Sphere, is_geojson: true })
}

fn distance_of(name: &str, value: &Value, [not_a_number, negative]: [i32; 2]) -> Result<f64> {
    match value.to_f64() {
        None => fail!(not_a_number, "{name} must be a number"),
        Some(distance) if distance.is_nan() || distance < 0.0 => {
            fail!(negative, "{name} must be non-negative")
        }
        Some(distance) => Ok(distance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(longitude: f64, latitude: f64) -> Value {
        let mut point = Document::one("type", "Point");
        point.push("coordinates", Value::array(vec![Value::Double(longitude), Value::Double(latitude)]));
        Value::document(point)
    }

    fn near(operators: Document) -> Near {
        Near::parse("loc", &operators).expect("is right")
    }

    fn shown(near: &Near, place: Value) -> Option<f64> {
        near.distance(&Document::one("loc", place)).map(|found| found.shown)
    }

    #[test]
    fn the_unit_follows_from_how_the_point_is_given() {
        let pair = |x: f64, y: f64| Value::array(vec![Value::Double(x), Value::Double(y)]);
        let meters = near(Document::one("$near", Document::one("$geometry", point(0.0, 0.0))));
        assert_eq!(shown(&meters, point(1.0, 0.0)), Some(111_318.845_021_450_34));
        let radians = near(Document::one("$nearSphere", pair(0.0, 0.0)));
        assert_eq!(shown(&radians, pair(3.0, 0.0)), Some(0.052_359_877_559_829_9));
        let plane = near(Document::one("$near", pair(0.0, 0.0)));
        assert_eq!(shown(&plane, pair(3.0, 4.0)), Some(5.0));
        assert!(meters.is_served_by(&Document::one("loc", "2dsphere")));
        assert!(!meters.is_served_by(&Document::one("loc", "2d")));
        assert!(radians.is_served_by(&Document::one("loc", "2d")));
        assert!(!plane.is_served_by(&Document::one("loc", "2dsphere")));
        assert!(!plane.is_served_by(&Document::one("other", "2d")));
    }

    #[test]
    fn a_shape_is_as_far_as_its_nearest_point() {
        let line = Value::array(vec![
            Value::array(vec![Value::Int(0), Value::Int(0)]),
            Value::array(vec![Value::Int(2), Value::Int(0)]),
        ]);
        let mut shape = Document::one("type", "LineString");
        shape.push("coordinates", line);
        let near = near(Document::one("$near", Document::one("$geometry", point(1.0, 1.0))));
        assert_eq!(shown(&near, Value::document(shape)), Some(111_318.845_021_450_31));
    }

    #[test]
    fn the_nearest_of_several_places_counts() {
        let mut operators = Document::one("$geometry", point(0.0, 0.0));
        operators.push("$maxDistance", Value::Int(200_000));
        let near = near(Document::one("$near", operators));
        let places = Value::array(vec![point(5.0, 0.0), point(1.0, 0.0)]);
        assert_eq!(shown(&near, places), Some(111_318.845_021_450_34));
        assert_eq!(shown(&near, point(5.0, 0.0)), None, "too far");
        assert_eq!(shown(&near, Value::string("nowhere")), None);
    }
}
