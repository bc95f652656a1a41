//! `$out` and `$merge`: where and how results are to be written. The crate writes nothing itself.

use std::sync::Arc;

use super::options::Options;
use crate::error::{Result, fail};
use crate::value::{Document, Str, Value};

/// Where the results of a pipeline go.
#[derive(Clone, Debug)]
pub enum Output {
    /// Replaces a collection.
    Replace {
        database: Option<Str>,
        collection: Str,
    },
    Merge(MergeTarget),
}

/// A parsed `$merge`.
#[derive(Clone, Debug)]
pub struct MergeTarget {
    pub database: Option<Str>,
    pub collection: Str,
    /// The fields that documents are joined on; none where the default holds.
    pub on: Vec<Str>,
    /// Variables for an update pipeline, each an expression over the new document.
    pub variables: Option<Document>,
    pub matched: WhenMatched,
    pub not_matched: WhenNotMatched,
}

#[derive(Clone, Debug)]
pub enum WhenMatched {
    Replace,
    Keep,
    Merge,
    Fail,
    Pipeline(Vec<Value>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotMatched {
    Insert,
    Discard,
    Fail,
}

/// A collection by name, or as `{db, coll}`.
pub(super) fn collection_name(value: &Value, stage: &str, code: i32) -> Result<(Option<Str>, Str)> {
    match value {
        Value::String(name) => {
            if name.is_empty() || name.starts_with('.') || name.contains('\0') {
                fail!(73, "Invalid collection name for {stage}: '{name}'");
            }
            Ok((None, name.clone()))
        }
        Value::Document(document) => {
            if let Some((name, _)) = document.iter().find(|(name, _)| !matches!(&***name, "db" | "coll")) {
                fail!(40415, "BSON field '{stage}.{name}' is an unknown field.");
            }
            let part = |name: &str| match document.get(name) {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(other) => {
                    fail!(14, "{stage} requires '{name}' to be a string, not {}", other.type_name())
                }
                None => fail!(code, "{stage} requires 'db' and 'coll'"),
            };
            Ok((Some(part("db")?), part("coll")?))
        }
        other => fail!(code, "the collection of {stage} must be a string, is type {}", other.type_name()),
    }
}

pub(super) fn parse_out(options: &Options<'_>) -> Result<Output> {
    if let Value::String(name) = options.argument() {
        check_target(name, "$out")?;
        return Ok(Output::Replace { database: None, collection: name.clone() });
    }
    let part = |name: &str| options.text(name).cloned().unwrap_or_else(|| "".into());
    let (collection, database) = (part("coll"), part("db"));
    check_target(&collection, "$out")?;
    if matches!(&*database, "admin" | "config" | "local") {
        fail!(31321, "Can't $out to internal database: {database}");
    }
    check_database(&database)?;
    Ok(Output::Replace { database: Some(database), collection })
}

fn check_target(name: &str, stage: &str) -> Result<()> {
    if name.starts_with("system.") {
        let code = if stage == "$out" { 17385 } else { 31319 };
        fail!(code, "Can't {stage} to special collection: {name}");
    }
    if stage == "$out" && (name.contains('$') || name.len() > 235) {
        fail!(20, "Invalid {stage} target namespace: '{name}'");
    }
    if name.is_empty() || name.starts_with('.') || name.contains(['\0', '$']) || name.len() > 235 {
        fail!(73, "Invalid {stage} target namespace: '{name}'");
    }
    Ok(())
}

fn check_database(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 63 || name.contains(['/', '\\', '.', ' ', '"', '$', '\0']) {
        fail!(73, "Invalid database name: '{name}'");
    }
    Ok(())
}

pub(super) fn parse_merge(options: &Options<'_>) -> Result<Output> {
    let into = match options.argument() {
        name @ Value::String(_) => name,
        _ => options.value("into"),
    };
    let (database, collection) = parse_into(into)?;
    let matched = parse_matched(options.get("whenMatched"));
    let not_matched = match options.text("whenNotMatched").map(|mode| &**mode) {
        Some("discard") => WhenNotMatched::Discard,
        Some("fail") => WhenNotMatched::Fail,
        _ => WhenNotMatched::Insert,
    };
    let variables = parse_variables(options.inner("let"), &matched)?;
    match (&matched, not_matched) {
        (WhenMatched::Keep | WhenMatched::Fail, WhenNotMatched::Discard)
        | (WhenMatched::Keep | WhenMatched::Fail, WhenNotMatched::Fail)
            if !matches!((&matched, not_matched), (WhenMatched::Keep, WhenNotMatched::Insert)) =>
        {
            fail!(51181, "Combination of $merge modes 'whenMatched' and 'whenNotMatched' is not supported")
        }
        _ => {}
    }
    let on = parse_on(options.get("on"))?;
    Ok(Output::Merge(MergeTarget { database, collection, on, variables, matched, not_matched }))
}

fn parse_into(into: &Value) -> Result<(Option<Str>, Str)> {
    let (database, collection) = match into {
        Value::String(name) => {
            if name.is_empty() {
                fail!(5786800, "$merge 'into' must not be an empty string");
            }
            // A name with a dot may name a database, too; the part before it is no database here.
            (None, name.clone())
        }
        into => {
            let part = |name: &str| into.as_document()?.get(name)?.as_str().map(Str::from);
            (part("db"), part("coll").unwrap_or_else(|| "".into()))
        }
    };
    if let Some(database) = &database {
        if matches!(&**database, "admin" | "config" | "local") {
            fail!(31320, "cannot $merge to internal database: {database}");
        }
        check_database(database)?;
    }
    check_target(&collection, "$merge")?;
    Ok((database, collection))
}

fn parse_on(on: Option<&Value>) -> Result<Vec<Str>> {
    let fields: Vec<Str> = match on {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(Str::from).collect(),
        Some(one) => one.as_str().map(Str::from).into_iter().collect(),
    };
    for (at, name) in fields.iter().enumerate() {
        if name.is_empty() {
            fail!(40352, "FieldPath cannot be constructed with empty string");
        }
        crate::path::field_path(name)?;
        if fields[..at].contains(name) {
            fail!(31465, "Found a duplicate field '{name}' in $merge 'on'");
        }
    }
    Ok(fields)
}

fn parse_matched(value: Option<&Value>) -> WhenMatched {
    match value {
        Some(Value::Array(stages)) => WhenMatched::Pipeline(stages.to_vec()),
        Some(Value::String(mode)) => match &**mode {
            "replace" => WhenMatched::Replace,
            "keepExisting" => WhenMatched::Keep,
            "fail" => WhenMatched::Fail,
            _ => WhenMatched::Merge,
        },
        _ => WhenMatched::Merge,
    }
}

fn parse_variables(variables: Option<&Arc<Document>>, matched: &WhenMatched) -> Result<Option<Document>> {
    let Some(variables) = variables else { return Ok(None) };
    if !matches!(matched, WhenMatched::Pipeline(_)) {
        fail!(51199, "Cannot use 'let' variables with 'whenMatched' mode; use a pipeline");
    }
    if let Some(new) = variables.get("new")
        && new.as_str() != Some("$$ROOT")
    {
        fail!(51273, "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'");
    }
    Ok(Some(Document::clone(variables)))
}
