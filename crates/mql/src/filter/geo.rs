//! `$geoWithin` and `$geoIntersects`: places of documents against shapes.
//!
//! GeoJSON lies on a sphere and its edges are great circles; `$box`, `$polygon` and `$center` lie in a plane. `$near` and
//! `$nearSphere`, which also sort, are in `near.rs`.

use super::geo_parse::{Query, document_shape, parse_query};
use super::geo_shape::{Shape, Space, intersects, is_in_flat_polygon, within};
use crate::error::Result;
use crate::value::Value;

/// A condition on the place of a value.
#[derive(Debug)]
pub(super) struct GeoTest {
    query: Query,
    within: bool,
}

impl GeoTest {
    pub fn parse(name: &str, operand: &Value) -> Result<GeoTest> {
        let within = name != "$geoIntersects";
        Ok(GeoTest { query: parse_query(name, operand, within)?, within })
    }

    /// Whether a value, which may hold several places, lies as asked.
    pub fn holds_for(&self, value: &Value) -> bool {
        if let Some(shape) = document_shape(value) {
            return self.holds_for_shape(&shape);
        }
        match value {
            Value::Array(items) => items
                .iter()
                .any(|item| document_shape(item).is_some_and(|shape| self.holds_for_shape(&shape))),
            _ => false,
        }
    }

    fn holds_for_shape(&self, shape: &Shape) -> bool {
        match &self.query {
            // Nothing but points lies in a plane.
            Query::Shape(_, Space::Plane) | Query::Circle(_, _, Space::Plane) | Query::FlatPolygon(_)
                if !shape.has_points_alone() =>
            {
                false
            }
            Query::FlatPolygon(corners) => shape.points().all(|point| is_in_flat_polygon(corners, point)),
            Query::Beyond(query) if self.within => !intersects(shape, query, Space::Sphere),
            Query::Beyond(query) => !within(shape, query, Space::Sphere),
            Query::Shape(query, space) if self.within => within(shape, query, *space),
            Query::Shape(query, space) => intersects(shape, query, *space),
            Query::Circle(centre, radius, space) => {
                shape.points().all(|point| space.distance(*centre, point) <= *radius + 1e-12)
            }
        }
    }
}
