//! `$geoNear`: documents with their distance from a point, the nearest first.
//!
//! The stage asks the indexes of the collection that the pipeline reads which field holds the places; it reads all documents and sorts them.

use std::sync::Arc;

use super::options::Options;
use super::run::{Context, Operator, Stage};
use super::simple::with_member;
use crate::error::{BAD_VALUE, Error, Result, TYPE_MISMATCH, error, fail};
use crate::expression::{Env, Expression, Scope, meta_name, parse as parse_expression};
use crate::filter::{Filter, Near};
use crate::path::field_path;
use crate::value::{Document, Str, Value};

/// Parts of a path that may name the field, and of those that results are written to.
const KEY_PARTS_MAX: usize = 180;
const PARTS_MAX: usize = 200;

pub(super) struct GeoNear {
    near: Expression,
    key: Option<Str>,
    filter: Option<Filter>,
    least: Option<Expression>,
    most: Option<Expression>,
    multiplier: f64,
    is_spherical: bool,
    distance_field: Option<Vec<Str>>,
    place_field: Option<Vec<Str>>,
}

pub(super) fn parse_geo_near(options: &Options<'_>, scope: &Scope) -> Result<GeoNear> {
    let limit =
        |name: &str, code: i32| options.get(name).map(|value| constant(value, scope, code, name)).transpose();
    let written = |name: &str| options.text(name).map(|path| written_path(name, path)).transpose();
    Ok(GeoNear {
        near: constant(options.value("near"), scope, 5_860_402, "near")?,
        key: options.text("key").map(key).transpose()?,
        filter: options.inner("query").map(|query| Filter::parse(query, scope)).transpose()?,
        least: limit("minDistance", 7_555_701)?,
        most: limit("maxDistance", 7_555_702)?,
        multiplier: options.get("distanceMultiplier").and_then(Value::to_f64).unwrap_or(1.0),
        is_spherical: options.get("spherical").is_some_and(Value::is_true),
        distance_field: written("distanceField")?,
        place_field: written("includeLocs")?,
    })
}

/// An argument that must not depend on documents.
fn constant(value: &Value, scope: &Scope, code: i32, name: &str) -> Result<Expression> {
    let parsed = parse_expression(value, scope)?;
    if parsed.reads_document() {
        fail!(code, "$geoNear requires a constant expression for '{name}', found {value}");
    }
    Ok(parsed)
}

/// A path that the stage writes to.
fn written_path(name: &str, text: &str) -> Result<Vec<Str>> {
    let path = path_of(text)?;
    if path.len() >= PARTS_MAX {
        fail!(5_984_700, "the path of $geoNear's '{name}' has too many parts");
    }
    Ok(path)
}

fn path_of(text: &str) -> Result<Vec<Str>> {
    if text.is_empty() {
        fail!(40352, "FieldPath cannot be constructed with empty string");
    }
    field_path(text)
}

fn key(text: &Str) -> Result<Str> {
    if path_of(text)?.len() > KEY_PARTS_MAX {
        fail!(5_729_100, "the path of $geoNear's 'key' has too many parts");
    }
    Ok(text.clone())
}

impl GeoNear {
    /// The condition on the field that the indexes name.
    fn condition(&self, env: &mut Env, indexes: &[Document]) -> Result<Near> {
        let place = self.near.evaluate(env)?;
        let mut bounds = Document::new();
        let limits = [("$minDistance", &self.least), ("$maxDistance", &self.most)];
        for (name, limit) in limits {
            if let Some(limit) = limit {
                bounds.push(name, limit_of(name, &limit.evaluate(env)?)?);
            }
        }
        let operator = if self.is_spherical { "$nearSphere" } else { "$near" };
        let is_pair = match &place {
            Value::Array(_) => true,
            Value::Document(place) => place.first().is_some_and(|(_, value)| value.is_number()),
            other => fail!(
                5_860_401,
                "$geoNear requires 'near' to be an object or an array, found {}",
                other.type_name()
            ),
        };
        let operators = match is_pair {
            true => {
                let mut operators = Document::one(operator, place);
                bounds.iter().for_each(|(name, value)| operators.push(name.clone(), value.clone()));
                operators
            }
            false => {
                let mut members = Document::one("$geometry", place);
                bounds.iter().for_each(|(name, value)| members.push(name.clone(), value.clone()));
                Document::one(operator, members)
            }
        };
        let field = match &self.key {
            Some(key) => key.to_string(),
            None => field_of(indexes)?,
        };
        let near = Near::parse(&field, &operators)?;
        near.check_served(indexes)?;
        Ok(near)
    }
}

fn limit_of(name: &str, value: &Value) -> Result<Value> {
    match value.to_f64() {
        None => fail!(TYPE_MISMATCH, "{name} must be a number, found {}", value.type_name()),
        Some(number) if number.is_nan() || number < 0.0 => fail!(BAD_VALUE, "{name} must be nonnegative"),
        Some(number) => Ok(Value::Double(number)),
    }
}

/// The field of the only geographic index; an index of a plane has precedence over one of the sphere.
fn field_of(indexes: &[Document]) -> Result<String> {
    for kind in ["2d", "2dsphere"] {
        let fields: Vec<&Str> = indexes
            .iter()
            .filter_map(|index| index.get("key")?.as_document())
            .filter_map(|key| key.iter().find(|(_, value)| value.as_str() == Some(kind)))
            .map(|(name, _)| name)
            .collect();
        match fields[..] {
            [] => {}
            [field] => return Ok(field.to_string()),
            _ => fail!(27, "There is more than one {kind} index; unsure which to use for $geoNear"),
        }
    }
    Err(error!(27, "$geoNear requires a 2d or 2dsphere index, but none were found"))
}

impl Stage for GeoNear {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(GeoNearRun { stage: self, near: None, rows: Vec::new(), bytes: 0 })
    }
}

struct GeoNearRun {
    stage: Arc<GeoNear>,
    near: Option<Near>,
    rows: Vec<(f64, Value)>,
    bytes: usize,
}

impl GeoNearRun {
    fn near(&mut self, context: &mut Context<'_>) -> Result<&Near> {
        if self.near.is_none() {
            self.near = Some(self.stage.condition(&mut context.env, &context.indexes)?);
        }
        self.near.as_ref().ok_or_else(|| Error::new(1, "$geoNear has no condition"))
    }
}

impl Operator for GeoNearRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        let stage = self.stage.clone();
        let near = self.near(context)?;
        let Value::Document(members) = &document else { return Ok(true) };
        let Some(found) = near.distance(members) else { return Ok(true) };
        if let Some(filter) = &stage.filter
            && !filter.matches(members, &mut context.env)?
        {
            return Ok(true);
        }
        let distance = Value::Double(found.shown * stage.multiplier);
        let mut shown = document;
        if let Some(path) = &stage.distance_field {
            shown = with_member(&shown, path, distance);
        }
        if let Some(path) = &stage.place_field {
            shown = with_member(&shown, path, found.place.clone());
        }
        shown = with_member(&shown, &[meta_name("geoNearDistance")], Value::Double(found.shown));
        shown = with_member(&shown, &[meta_name("geoNearPoint")], found.place);
        self.bytes += shown.size();
        context.check_memory("$geoNear", self.bytes)?;
        self.rows.push((found.shown, shown));
        Ok(true)
    }

    fn finish(&mut self, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        self.near(context)?;
        self.rows.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        out.extend(self.rows.drain(..).map(|(_, document)| document));
        Ok(())
    }
}

/// Removes the metadata that the stage attached to a document for later stages.
pub(super) fn without_metadata(document: Value) -> Value {
    match document {
        Value::Document(members) if members.iter().any(|(name, _)| is_metadata(name)) => {
            let mut members = Document::clone(&members);
            members.retain(|name, _| !is_metadata(name));
            Value::document(members)
        }
        other => other,
    }
}

fn is_metadata(name: &str) -> bool {
    matches!(name, "$meta.geoNearDistance" | "$meta.geoNearPoint")
}
