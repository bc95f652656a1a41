//! Conditions on places. Not there yet: each operator is refused by its name.

use super::leaf::Leaf;
use crate::error::{NOT_SUPPORTED, Result, fail};
use crate::value::{Document, Value};

/// A condition on the place of a value.
#[derive(Debug)]
pub(super) struct GeoTest;

/// Nearness to a point.
#[derive(Debug)]
pub struct Near;

impl GeoTest {
    pub fn holds_for(&self, _: &Value) -> bool {
        false
    }
}

impl Near {
    pub fn distance(&self, _: &Value) -> Option<f64> {
        None
    }
}

pub(super) fn parse_geo(operators: &Document) -> Result<Option<Leaf>> {
    let names = ["$geoWithin", "$geoIntersects", "$near", "$nearSphere", "$within", "$geoNear"];
    match operators.iter().find(|(name, _)| names.contains(&&***name)) {
        Some((name, _)) => fail!(NOT_SUPPORTED, "{name} is not supported"),
        None => Ok(None),
    }
}
