//! `$out` and `$merge`: where and how results are to be written. The crate writes nothing itself.

use crate::error::{Result, error, fail};
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

pub(super) fn parse_out(value: &Value) -> Result<Output> {
    match value {
        Value::String(name) => {
            check_target(name, "$out")?;
            Ok(Output::Replace { database: None, collection: name.clone() })
        }
        Value::Document(document) => {
            for (name, _) in document.iter() {
                match &**name {
                    name @ ("db" | "coll") => {
                        if document.iter().filter(|(other, _)| ***other == *name).count() > 1 {
                            fail!(40413, "BSON field '$out.{name}' is a duplicate field");
                        }
                    }
                    "timeseries" => fail!(303, "$out to a time series collection is not supported"),
                    other => fail!(40415, "BSON field '$out.{other}' is an unknown field."),
                }
            }
            let part = |name: &str| match document.get(name) {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(Value::Null) => fail!(40414, "BSON field '$out.{name}' is missing but a required field"),
                Some(other) => fail!(
                    14,
                    "BSON field '$out.{name}' is the wrong type '{}', expected type 'string'",
                    other.type_name()
                ),
                None => fail!(40414, "BSON field '$out.{name}' is missing but a required field"),
            };
            let (collection, database) = (part("coll")?, part("db")?);
            check_target(&collection, "$out")?;
            if matches!(&*database, "admin" | "config" | "local") {
                fail!(31321, "Can't $out to internal database: {database}");
            }
            check_database(&database)?;
            Ok(Output::Replace { database: Some(database), collection })
        }
        other => {
            fail!(16990, "$out only supports a string or object argument, but found {}", other.type_name())
        }
    }
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

pub(super) fn parse_merge(value: &Value) -> Result<Output> {
    let document = match value {
        Value::String(_) => Document::one("into", value.clone()),
        Value::Document(document) => (**document).clone(),
        other => fail!(51182, "$merge only supports a string or object argument, not {}", other.type_name()),
    };
    for (name, _) in document.iter() {
        if !matches!(&**name, "into" | "on" | "let" | "whenMatched" | "whenNotMatched") {
            fail!(40415, "BSON field '$merge.{name}' is an unknown field.");
        }
    }
    let into = document.get("into");
    let into =
        into.ok_or_else(|| error!(40414, "BSON field '$merge.into' is missing but a required field"))?;
    let (database, collection) = parse_into(into)?;
    let matched = parse_matched(document.get("whenMatched"))?;
    let not_matched = parse_not_matched(document.get("whenNotMatched"))?;
    let variables = parse_variables(document.get("let"), &matched)?;
    match (&matched, not_matched) {
        (WhenMatched::Keep | WhenMatched::Fail, WhenNotMatched::Discard)
        | (WhenMatched::Keep | WhenMatched::Fail, WhenNotMatched::Fail)
            if !matches!((&matched, not_matched), (WhenMatched::Keep, WhenNotMatched::Insert)) =>
        {
            fail!(51181, "Combination of $merge modes 'whenMatched' and 'whenNotMatched' is not supported")
        }
        _ => {}
    }
    let on = parse_on(document.get("on"))?;
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
        Value::Document(document) => {
            for (name, value) in document.iter() {
                match (&**name, value) {
                    ("db" | "coll", Value::String(_)) => {}
                    ("coll", Value::Null) => fail!(5786801, "$merge 'into.coll' must not be null"),
                    ("db" | "coll", other) => {
                        fail!(
                            14,
                            "BSON field 'into.{name}' is the wrong type '{}', expected type 'string'",
                            other.type_name()
                        )
                    }
                    (other, _) => fail!(40415, "BSON field 'into.{other}' is an unknown field."),
                }
            }
            let part = |name: &str| document.get(name).and_then(Value::as_str).map(Str::from);
            match part("coll") {
                Some(collection) => (part("db"), collection),
                None => fail!(5786801, "$merge 'into' must name a collection"),
            }
        }
        other => fail!(
            51178,
            "$merge 'into' field must be either a string or an object, but found {}",
            other.type_name()
        ),
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
    let field = |value: &Value, code: i32| match value {
        Value::String(name) => Ok(name.clone()),
        other => fail!(
            code,
            "$merge 'on' must be a string or an array of strings, but found {}",
            other.type_name()
        ),
    };
    let fields = match on {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) if items.is_empty() => {
            fail!(51187, "If explicitly specifying $merge 'on', must include at least one field")
        }
        Some(Value::Array(items)) => {
            items.iter().map(|item| field(item, 51134)).collect::<Result<Vec<Str>>>()?
        }
        Some(other) => vec![field(other, 51186)?],
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

fn parse_matched(value: Option<&Value>) -> Result<WhenMatched> {
    Ok(match value {
        None => WhenMatched::Merge,
        Some(Value::Array(stages)) => {
            if stages.iter().any(|stage| stage.as_document().is_none()) {
                fail!(14, "Each element of the 'pipeline' array must be an object");
            }
            WhenMatched::Pipeline(stages.to_vec())
        }
        Some(Value::String(mode)) => match &**mode {
            "replace" => WhenMatched::Replace,
            "keepExisting" => WhenMatched::Keep,
            "merge" => WhenMatched::Merge,
            "fail" => WhenMatched::Fail,
            other => fail!(2, "Enumeration value '{other}' for field 'whenMatched' is not a valid value."),
        },
        Some(other) => fail!(
            51191,
            "$merge 'whenMatched' field must be either a string or an array, but found {}",
            other.type_name()
        ),
    })
}

fn parse_not_matched(value: Option<&Value>) -> Result<WhenNotMatched> {
    Ok(match value {
        None => WhenNotMatched::Insert,
        Some(Value::String(mode)) => match &**mode {
            "insert" => WhenNotMatched::Insert,
            "discard" => WhenNotMatched::Discard,
            "fail" => WhenNotMatched::Fail,
            other => fail!(
                2,
                "Enumeration value '{other}' for field '$merge.whenNotMatched' is not a valid value."
            ),
        },
        Some(other) => {
            fail!(
                14,
                "BSON field '$merge.whenNotMatched' is the wrong type '{}', expected type 'string'",
                other.type_name()
            )
        }
    })
}

fn parse_variables(value: Option<&Value>, matched: &WhenMatched) -> Result<Option<Document>> {
    let variables = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Document(variables)) => (**variables).clone(),
        Some(other) => fail!(
            14,
            "BSON field '$merge.let' is the wrong type '{}', expected type 'object'",
            other.type_name()
        ),
    };
    if !matches!(matched, WhenMatched::Pipeline(_)) {
        fail!(51199, "Cannot use 'let' variables with 'whenMatched' mode; use a pipeline");
    }
    if let Some(new) = variables.get("new")
        && new.as_str() != Some("$$ROOT")
    {
        fail!(51273, "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'");
    }
    Ok(Some(variables))
}
