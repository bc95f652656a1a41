//! Rules for wildcard indexes (spec mongo.md §17): one wildcard in the key, and a matching projection.

use shardlake_mql::{Document, Value};

use crate::failure::{Failure, Result};

/// Whether a wildcard index has entries of a path; `None` for an index of another kind, or one with further fields.
pub(crate) fn has_entries_of(index: &Document, path: &str) -> Option<bool> {
    let key = index.get("key").and_then(Value::as_document)?;
    let (wildcard, _) = key.first().filter(|(name, _)| key.len() == 1 && is_wildcard(name))?;
    let lies_in =
        |place: &str| path == place || path.strip_prefix(place).is_some_and(|rest| rest.starts_with('.'));
    if let Some(parent) = wildcard.strip_suffix(".$**") {
        return Some(lies_in(parent));
    }
    let projection = index.get("wildcardProjection").and_then(Value::as_document);
    let named = |place: &str| projection.and_then(|projection| projection.get(place)).map(Value::is_true);
    if lies_in("_id") {
        return Some(named("_id") == Some(true));
    }
    let Some(projection) = projection else { return Some(true) };
    let mut places = projection.iter().filter(|(place, _)| &***place != "_id");
    let includes = projection.iter().any(|(place, value)| &**place != "_id" && value.is_true());
    Some(places.any(|(place, _)| lies_in(place)) == includes)
}

pub(crate) fn check_wildcard(key: &Document, specification: &Document) -> Result<()> {
    let wildcards: Vec<&str> = key.iter().map(|(name, _)| &**name).filter(|name| is_wildcard(name)).collect();
    let projection = specification.get("wildcardProjection");
    let Some(wildcard) = wildcards.first() else {
        return match projection {
            Some(_) => {
                Err(Failure::new(2, "The field 'wildcardProjection' is only allowed in a wildcard index"))
            }
            None => Ok(()),
        };
    };
    if wildcards.len() > 1 {
        return Err(Failure::new(7_246_201, "A compound wildcard index takes one wildcard field only"));
    }
    let version = specification.get("v").and_then(Value::to_f64);
    if version.is_some_and(|version| version < 2.0) {
        return Err(Failure::new(67, "Wildcard indexes need version 2 of the index format"));
    }
    match projection {
        None if key.len() > 1 && *wildcard == "$**" => Err(Failure::new(
            67,
            "A compound index over every field needs a 'wildcardProjection' that excludes its other fields",
        )),
        None => Ok(()),
        Some(Value::Document(projection)) => {
            if *wildcard != "$**" {
                return Err(Failure::new(
                    9,
                    "The field 'wildcardProjection' is only allowed when the wildcard is '$**'",
                ));
            }
            check_projection(key, projection)
        }
        Some(other) => Err(Failure::new(
            14,
            format!(
                "The field 'wildcardProjection' must be a non-empty object, but got {}",
                other.type_name()
            ),
        )),
    }
}

pub(crate) fn is_wildcard(name: &str) -> bool {
    name == "$**" || name.ends_with(".$**")
}

fn check_projection(key: &Document, projection: &Document) -> Result<()> {
    if projection.is_empty() {
        return Err(Failure::new(9, "The 'wildcardProjection' field can't be an empty object"));
    }
    let mut leaves = Vec::new();
    collect("", projection, &mut leaves)?;
    for (at, (path, _)) in leaves.iter().enumerate() {
        let collides = |other: &str| other == path || other.starts_with(&format!("{path}."));
        if leaves.iter().enumerate().any(|(other_at, (other, _))| other_at != at && collides(other)) {
            return Err(Failure::new(31249, format!("Path collision at {path}")));
        }
    }
    let of_others = || leaves.iter().filter(|(path, _)| path != "_id");
    let is_inclusion = of_others().any(|(_, includes)| *includes);
    if is_inclusion && of_others().any(|(_, includes)| !*includes) {
        return Err(Failure::new(31254, "Cannot do exclusion in an inclusion projection"));
    }
    for (name, _) in key.iter().filter(|(name, _)| !is_wildcard(name)) {
        let is_listed = leaves.iter().any(|(path, _)| *path == **name);
        if is_listed == is_inclusion {
            return Err(Failure::new(
                7_246_209,
                format!("The wildcard field may not hold '{name}', which the index has too: exclude it"),
            ));
        }
    }
    Ok(())
}

fn collect(before: &str, projection: &Document, leaves: &mut Vec<(String, bool)>) -> Result<()> {
    for (name, value) in projection.iter() {
        let path = if before.is_empty() { name.to_string() } else { format!("{before}.{name}") };
        match value {
            Value::Bool(includes) => leaves.push((path, *includes)),
            number if number.is_number() => leaves.push((path, number.is_true())),
            Value::Document(inner) if !inner.is_empty() => collect(&path, inner, leaves)?,
            other => {
                return Err(Failure::new(
                    51271,
                    format!("Bad projection specification, cannot use a value of type {}", other.type_name()),
                ));
            }
        }
    }
    Ok(())
}
