//! `$fill`: values in place of null or missing ones. It is a `$setWindowFields` for values that follow from neighbours,
//! and an `$addFields` for given values.

use std::sync::Arc;

use super::options::{self, Options};
use super::run::Stage;
use super::simple::Each;
use super::window;
use crate::error::{Result, fail};
use crate::expression::Scope;
use crate::path::field_path;
use crate::projection::Projection;
use crate::value::{Document, Str, Value};

type SharedStage = Arc<dyn Stage + Send + Sync>;

pub(super) fn parse_fill(options: &Options<'_>, scope: &Scope, out: &mut Vec<SharedStage>) -> Result<()> {
    if options.has("partitionBy") && options.has("partitionByFields") {
        fail!(6_050_204, "Maximum one of 'partitionBy' and 'partitionByFields' can be specified in '$fill'");
    }
    let outputs = options.inner("output").cloned().unwrap_or_default();
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
        if let Some(partition) = partition_by(options)? {
            windows.push("partitionBy", partition);
        }
        if let Some(order) = options.get("sortBy") {
            windows.push("sortBy", order.clone());
        }
        windows.push("output", Value::document(carried));
        let windows = Value::document(windows);
        let windows = options::made("$setWindowFields", &windows)?;
        out.push(Arc::new(window::parse_window_fields(&windows, scope)?));
    }
    if !said.is_empty() {
        let said = Projection::add_fields("$addFields", &Value::document(said), scope)?;
        out.push(Arc::new(Each::Project(said)));
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
fn partition_by(options: &Options<'_>) -> Result<Option<Value>> {
    let Some(names) = options.items("partitionByFields") else {
        return Ok(options.get("partitionBy").cloned());
    };
    let mut fields = Document::new();
    for (place, name) in names.iter().filter_map(Value::as_str).enumerate() {
        if name.starts_with('$') {
            fail!(6_050_203, "Each field of 'partitionByFields' must be a path without '$': {name}");
        }
        field_path(name)?;
        // By their place: a path has dots, which names of members may not have.
        fields.push(Str::from(place.to_string()), Value::string(format!("${name}")));
    }
    Ok((!fields.is_empty()).then(|| Value::document(fields)))
}
