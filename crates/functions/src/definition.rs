//! Checks of a definition: its values, its containers, and whether the function would feed itself.

use std::sync::Arc;

use shardlake_catalog::{FunctionAccess, FunctionDefinition, FunctionMode};
use shardlake_model::{Error, Limits, Result, validate_resource_id};
use shardlake_router::{ContainerEntry, LiveCatalog};

use crate::filter::Filter;

const ID_BYTES_MAX: usize = 128;
const CODE_BYTES_MAX: usize = 256 << 10;
const ACCESS_MAX: usize = 20;
const CHANGES_MAX: u32 = 1000;
const BYTES: std::ops::RangeInclusive<u32> = 1024..=16 << 20;
const LANES_MAX: u32 = 16;
const TIMEOUT_MAX: u32 = 60;
const ATTEMPTS_MAX: u32 = 100;
const RETRY_MS_MAX: u32 = 3_600_000;

/// The containers of a function.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub source: Arc<ContainerEntry>,
    /// In the order of `access`.
    pub access: Vec<Arc<ContainerEntry>>,
}

/// Refuses values that no function can have, and those that are not supported yet.
pub(crate) fn check_values(definition: &FunctionDefinition) -> Result<()> {
    check_id(&definition.id)?;
    Filter::of(&definition.source.filter)?;
    if definition.access.len() > ACCESS_MAX {
        return Err(Error::bad_request(format!("'access' names at most {ACCESS_MAX} containers")));
    }
    let code = definition.code.len();
    if definition.code.trim().is_empty() || code > CODE_BYTES_MAX {
        return Err(Error::bad_request(format!(
            "'code' is the text of a JavaScript function, of at most {CODE_BYTES_MAX} bytes: it has {code}"
        )));
    }
    let batch = &definition.batch;
    within("batch.changes", batch.changes, 1..=CHANGES_MAX)?;
    within("batch.bytes", batch.bytes, BYTES)?;
    within("lanes", definition.lanes, 1..=LANES_MAX)?;
    within("timeoutSeconds", definition.timeout_seconds, 1..=TIMEOUT_MAX)?;
    within("requestUnitsPerSecond", definition.request_units_per_second.unwrap_or(1), 1..=u32::MAX)?;
    let retry = &definition.retry;
    within("retry.attempts", retry.attempts, 1..=ATTEMPTS_MAX)?;
    within("retry.maxMs", retry.max_ms, 1..=RETRY_MS_MAX)?;
    within("retry.firstMs", retry.first_ms, 1..=retry.max_ms)?;
    check_supported(definition)
}

fn check_id(id: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.len() > ID_BYTES_MAX || !id.chars().all(is_plain) {
        return Err(Error::bad_request(format!(
            "the id of a function is 1 to {ID_BYTES_MAX} letters, digits, '-', '_' and '.', which '{id}' is not"
        )));
    }
    Ok(())
}

fn within(member: &str, value: u32, range: std::ops::RangeInclusive<u32>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let (min, max) = range.into_inner();
    Err(Error::bad_request(format!("'{member}' is {min} to {max}, not {value}")))
}

fn check_supported(definition: &FunctionDefinition) -> Result<()> {
    let unsupported = |member: &str, instead: &str| {
        Err(Error::unsupported(format!("{member} is not supported yet: {instead}; nothing was done")))
    };
    if definition.mode == FunctionMode::AllVersions {
        return unsupported("the mode 'allVersions' of functions", "use 'latest'");
    }
    if definition.lanes > 1 {
        return unsupported("more than one lane of a function", "leave 'lanes' out");
    }
    if definition.batch.wait_ms > 0 {
        return unsupported("'batch.waitMs'", "leave it out");
    }
    Ok(())
}

/// Finds the containers, and refuses uses that they do not allow.
pub(crate) fn check_containers(live: &LiveCatalog, definition: &FunctionDefinition) -> Result<Ends> {
    let source = &definition.source;
    let found = find(live, "source", &source.database, &source.container)?;
    let mut access = Vec::new();
    for (name, right) in &definition.access {
        let (database, container) = named(name, &source.database);
        let entry = find(live, "'access'", database, container)?;
        let is_twice = |other: &Arc<ContainerEntry>| other.record.container.rid == entry.record.container.rid;
        if access.iter().any(is_twice) {
            return Err(Error::bad_request(format!("'access' names the container '{name}' twice")));
        }
        if *right == FunctionAccess::ReadWrite {
            entry.check_takes_writes().map_err(|error| {
                Error::bad_request(format!("'access' to '{name}' can be \"read\" only: {}", error.message()))
            })?;
        }
        access.push(entry);
    }
    check_letters(live, definition)?;
    Ok(Ends { source: found, access })
}

/// The database and the container of a name in `access`.
pub(crate) fn named<'n>(name: &'n str, database: &'n str) -> (&'n str, &'n str) {
    name.split_once('/').unwrap_or((database, name))
}

fn find(live: &LiveCatalog, role: &str, database: &str, container: &str) -> Result<Arc<ContainerEntry>> {
    let owner = live.databases.get(database);
    let entry = owner.and_then(|owner| owner.containers.get(container)).cloned().ok_or_else(|| {
        Error::bad_request(format!(
            "the container '{database}/{container}' ({role} of the function) does not exist: create it first"
        ))
    })?;
    if entry.record.container.is_collection {
        return Err(Error::unsupported(format!(
            "the container '{database}/{container}' ({role} of the function) was created over the MongoDB API, which functions do not support yet; nothing was done"
        )));
    }
    Ok(entry)
}

fn check_letters(live: &LiveCatalog, definition: &FunctionDefinition) -> Result<()> {
    let (source, letters) = (&definition.source, &definition.dead_letters);
    // It is created when it is first needed, which is too late to report a bad name.
    validate_resource_id(letters, &Limits::default()).map_err(|error| {
        Error::bad_request(format!("'deadLetters' names no container: {}", error.message()))
    })?;
    let own = (source.database.as_str(), letters.as_str());
    let is_used = definition.access.keys().any(|name| named(name, &source.database) == own);
    if is_used || *letters == source.container {
        return Err(Error::bad_request(format!(
            "dead letters need a container of their own: the function uses '{letters}' already"
        )));
    }
    let Ok(entry) = find(live, "'deadLetters'", &source.database, letters) else { return Ok(()) };
    let paths = &entry.shape.key_paths;
    let is_by_copy = matches!(paths.as_slice(), [path] if path.0 == ["copy"]);
    if !is_by_copy || entry.check_takes_writes().is_err() {
        return Err(Error::bad_request(format!(
            "'deadLetters' names '{letters}', which is no container for dead letters: these have the partition key /copy"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shardlake_model::ErrorKind;

    use super::*;

    fn with(member: &str, value: Value) -> FunctionDefinition {
        let mut definition = json!({
            "id": "names", "code": "async function (changes, context) { }",
            "source": { "database": "d", "container": "c" },
        });
        definition[member] = value;
        serde_json::from_value(definition).expect("well-formed")
    }

    #[test]
    fn values_out_of_bounds_are_refused_by_name() {
        check_values(&with("lanes", json!(1))).expect("the least definition");
        for (member, value, name) in [
            ("id", json!("a b"), "id"),
            ("id", json!(""), "id"),
            ("code", json!(" "), "code"),
            ("code", json!("x".repeat(CODE_BYTES_MAX + 1)), "code"),
            ("batch", json!({ "changes": 0 }), "batch.changes"),
            ("batch", json!({ "bytes": 1 }), "batch.bytes"),
            ("lanes", json!(0), "lanes"),
            ("lanes", json!(17), "lanes"),
            ("timeoutSeconds", json!(61), "timeoutSeconds"),
            ("requestUnitsPerSecond", json!(0), "requestUnitsPerSecond"),
            ("retry", json!({ "attempts": 0 }), "retry.attempts"),
            ("retry", json!({ "firstMs": 40_000 }), "retry.firstMs"),
            ("source", json!({ "database": "d", "container": "c", "filter": { "type": 1 } }), "filter"),
            ("source", json!({ "database": "d", "container": "c", "filter": { "/a": {} } }), "filter"),
        ] {
            let error = check_values(&with(member, value.clone())).expect_err(member);
            assert_eq!(error.kind(), ErrorKind::BadRequest, "{member}: {error}");
            assert!(error.message().contains(name), "{member} {value}: {error}");
        }
    }

    #[test]
    fn members_that_are_not_followed_yet_are_refused_as_unsupported() {
        for (member, value, name) in [
            ("mode", json!("allVersions"), "allVersions"),
            ("lanes", json!(2), "lane"),
            ("batch", json!({ "waitMs": 10 }), "waitMs"),
        ] {
            let error = check_values(&with(member, value)).expect_err(member);
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{member}: {error}");
            assert!(error.message().contains(name), "{error}");
        }
    }

    #[test]
    fn names_in_access_may_have_a_database() {
        assert_eq!(named("product", "shop"), ("shop", "product"));
        assert_eq!(named("other/product", "shop"), ("other", "product"));
    }
}
