//! `$fill`: values in place of null or missing ones. It is a `$setWindowFields` for values that follow from neighbours,
//! and an `$addFields` for given values.

use std::sync::Arc;

use super::run::Stage;
use super::simple::Each;
use super::window;
use crate::error::{FAILED_TO_PARSE, Result, fail};
use crate::expression::Scope;
use crate::path::field_path;
use crate::projection::Projection;
use crate::value::{Document, Str, Value};

type SharedStage = Arc<dyn Stage + Send + Sync>;

pub(super) fn parse_fill(value: &Value, scope: &Scope, out: &mut Vec<SharedStage>) -> Result<()> {
    let Value::Document(options) = value else {
        fail!(
            FAILED_TO_PARSE,
            "The $fill stage specification must be an object, found {}",
            value.type_name()
        );
    };
    check_fields(options)?;
    let Some(Value::Document(outputs)) = options.get("output") else {
        fail!(40414, "BSON field '$fill.output' is missing but a required field");
    };
    let (mut carried, mut said) = (Document::new(), Document::new());
    for (path, how) in outputs.iter() {
        field_path(path)?;
        let own = Value::string(format!("${path}"));
        match method(path, how)? {
            How::Value(value) => {
                let filled = Document::one("$ifNull", vec![own, value.clone()]);
                said.push(path.clone(), Value::document(filled));
            }
            How::CarryForward => carried.push(path.clone(), Value::document(Document::one("$locf", own))),
            How::Linear if !options.has("sortBy") => {
                fail!(605_001, "$linearFill must be specified with a top level sortBy expression")
            }
            How::Linear => carried.push(path.clone(), Value::document(Document::one("$linearFill", own))),
        }
    }
    if !carried.is_empty() {
        let mut windows = Document::new();
        windows.push("partitionBy", partition_by(options)?);
        windows.push("sortBy", options.value("sortBy"));
        windows.push("output", Value::document(carried));
        out.push(Arc::new(window::parse_window_fields(&Value::document(windows), scope)?));
    }
    if !said.is_empty() {
        let said = Projection::add_fields("$addFields", &Value::document(said), scope)?;
        out.push(Arc::new(Each::Project(said)));
    }
    Ok(())
}

fn check_fields(options: &Document) -> Result<()> {
    for (name, value) in options.iter() {
        let (is_right, expected) = match &**name {
            "partitionBy" => (matches!(value, Value::Document(_) | Value::String(_)), "object"),
            "partitionByFields" => (matches!(value, Value::Array(_)), "array"),
            "sortBy" | "output" => (matches!(value, Value::Document(_)), "object"),
            other => fail!(40415, "BSON field '$fill.{other}' is an unknown field."),
        };
        if !is_right {
            fail!(
                14,
                "BSON field '$fill.{name}' is the wrong type '{}', expected type '{expected}'",
                value.type_name()
            );
        }
    }
    if options.has("partitionBy") && options.has("partitionByFields") {
        fail!(6_050_204, "Maximum one of 'partitionBy' and 'partitionByFields' can be specified in '$fill'");
    }
    Ok(())
}

/// How a field is filled.
enum How<'v> {
    Value(&'v Value),
    CarryForward,
    Linear,
}

fn method<'v>(path: &str, how: &'v Value) -> Result<How<'v>> {
    let Value::Document(how) = how else {
        fail!(
            14,
            "BSON field '$fill.output.{path}' is the wrong type '{}', expected type 'object'",
            how.type_name()
        );
    };
    match how.first().map(|(name, value)| (&**name, value)) {
        Some(("value", value)) if how.len() == 1 => Ok(How::Value(value)),
        Some(("method", Value::String(name))) if how.len() == 1 => match &**name {
            "locf" => Ok(How::CarryForward),
            "linear" => Ok(How::Linear),
            _ => fail!(6_050_202, "Method must be either locf or linear"),
        },
        _ => fail!(
            40415,
            "each output of '$fill' has either a 'value' or a 'method', and nothing else: {path}"
        ),
    }
}

/// The expression by which documents are partitioned before neighbours are compared.
fn partition_by(options: &Document) -> Result<Value> {
    let Some(Value::Array(names)) = options.get("partitionByFields") else {
        return Ok(options.value("partitionBy"));
    };
    let mut fields = Document::new();
    for (place, name) in names.iter().enumerate() {
        let Value::String(name) = name else {
            fail!(
                14,
                "BSON field '$fill.partitionByFields.{place}' is the wrong type '{}', expected type 'string'",
                name.type_name()
            );
        };
        if name.starts_with('$') {
            fail!(6_050_203, "Each field of 'partitionByFields' must be a path without '$': {name}");
        }
        field_path(name)?;
        // By their place: a path has dots, which names of members may not have.
        fields.push(Str::from(place.to_string()), Value::string(format!("${name}")));
    }
    Ok(if fields.is_empty() { Value::Missing } else { Value::document(fields) })
}
