//! A projection's rule in parsed form. Its written and stored form is in `shardlake_catalog`.
//!
//! Where `match` names elements of an array of the target, `set` does too, and refers to the
//! matching elements. A rule is checked as a whole when it is parsed; the existence of its
//! containers, and conflicts with other rules, are checked in `check.rs`.

use shardlake_catalog::ProjectionRule;
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{Error, Result};

use crate::path::{Path, expression, get};

/// Pairs of paths in one rule, and values of one filter.
const PAIRS_MAX: usize = 20;
const ID_BYTES_MAX: usize = 128;

/// A rule with parsed paths.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    pub filter: Vec<(Path, Vec<Value>)>,
    /// From the source's value to the target's.
    pub matches: Vec<(Path, Path)>,
    pub set: Vec<(Path, Path)>,
    /// The array of the target with the matched elements.
    pub array: Option<Vec<String>>,
    /// Finds the target items of a source item; its parameters `@m0`, `@m1`… are values of the source item.
    pub target_query: String,
    /// Finds the source items of a target item, in the same way.
    pub source_query: String,
}

/// Parses a rule, and refuses one that contradicts itself.
pub(crate) fn compile(rule: &ProjectionRule) -> Result<Compiled> {
    check_names(rule)?;
    let matches = pairs(rule.matches.iter().map(|pair| (&pair.source, &pair.target)), "match")?;
    let set = pairs(rule.set.iter().map(|pair| (&pair.from, &pair.to)), "set")?;
    let filter = filter_of(rule)?;
    let array = array_of(&matches)?;
    check_copies(&matches, &set, array.as_ref())?;
    let target_query = target_query(&matches, array.as_ref());
    let source_query = query(matches.iter().map(|(source, _)| source));
    Ok(Compiled { filter, matches, set, array, target_query, source_query })
}

fn check_names(rule: &ProjectionRule) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if rule.id.is_empty() || rule.id.len() > ID_BYTES_MAX || !rule.id.chars().all(is_plain) {
        return Err(Error::bad_request(format!(
            "the id of a projection is 1 to {ID_BYTES_MAX} letters, digits, '-', '_' and '.', which '{}' is not",
            rule.id
        )));
    }
    let is_in_way = |database: &str, container: &str| {
        (database, container) == (rule.target.database.as_str(), rule.dead_letters.as_str())
    };
    if is_in_way(&rule.source.database, &rule.source.container)
        || is_in_way(&rule.target.database, &rule.target.container)
    {
        return Err(Error::bad_request(format!(
            "dead letters need a container of their own: '{}' is the source or the target",
            rule.dead_letters
        )));
    }
    Ok(())
}

fn filter_of(rule: &ProjectionRule) -> Result<Vec<(Path, Vec<Value>)>> {
    check_count(rule.source.filter.len(), 0, "filter")?;
    let mut filter = Vec::new();
    for (path, wanted) in &rule.source.filter {
        let wanted = match wanted {
            serde_json::Value::Array(values) => values.iter().map(scalar).collect::<Result<Vec<_>>>()?,
            value => vec![scalar(value)?],
        };
        check_count(wanted.len(), 1, "filter")?;
        filter.push((source_path(path)?, wanted));
    }
    Ok(filter)
}

impl Compiled {
    /// Whether a source item is one of those that the rule is about.
    pub fn covers(&self, item: &Value) -> bool {
        self.filter.iter().all(|(path, wanted)| {
            let value = get(item, &path.names);
            wanted.iter().any(|wanted| shardlake_document::compare(wanted, value).is_eq())
        })
    }

    /// The paths that a change of the source's items matters to.
    pub fn reads_of_source(&self) -> impl Iterator<Item = &Path> {
        let filter = self.filter.iter().map(|(path, _)| path);
        filter.chain(self.matches.iter().chain(&self.set).map(|(source, _)| source))
    }

    pub fn reads_of_target(&self) -> impl Iterator<Item = &Path> {
        self.matches.iter().map(|(_, target)| target)
    }

    pub fn writes(&self) -> impl Iterator<Item = &Path> {
        self.set.iter().map(|(_, to)| to)
    }
}

fn pairs<'r>(
    pairs: impl ExactSizeIterator<Item = (&'r String, &'r String)>,
    member: &str,
) -> Result<Vec<(Path, Path)>> {
    check_count(pairs.len(), 1, member)?;
    pairs.map(|(source, target)| Ok((source_path(source)?, Path::parse(target)?))).collect()
}

fn check_count(count: usize, min: usize, member: &str) -> Result<()> {
    if (min..=PAIRS_MAX).contains(&count) {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "'{member}' of a projection takes {min} to {PAIRS_MAX} entries, not {count}"
    )))
}

fn source_path(text: &str) -> Result<Path> {
    let path = Path::parse(text)?;
    if path.array.is_some() {
        return Err(Error::bad_request(format!(
            "the path '{text}' is invalid: a value of the source is one value, without '[]'"
        )));
    }
    Ok(path)
}

fn scalar(value: &serde_json::Value) -> Result<Value> {
    if value.is_array() || value.is_object() {
        return Err(Error::bad_request(
            "a filter of a projection compares with texts, numbers, booleans and null",
        ));
    }
    let limits = ParseLimits::default();
    Value::from_json(value.to_string().as_bytes(), &limits)
        .map_err(|error| Error::bad_request(format!("a filter's value is invalid: {error}")))
}

/// The one array that the target's paths go through.
fn array_of(matches: &[(Path, Path)]) -> Result<Option<Vec<String>>> {
    let mut arrays = matches.iter().filter_map(|(_, target)| target.array.as_ref());
    let Some(first) = arrays.next() else { return Ok(None) };
    match arrays.all(|array| array == first) {
        true => Ok(Some(first.clone())),
        false => Err(Error::bad_request("'match' goes through one array of the target at most")),
    }
}

fn check_copies(matches: &[(Path, Path)], set: &[(Path, Path)], array: Option<&Vec<String>>) -> Result<()> {
    for (place, (_, to)) in set.iter().enumerate() {
        let text = || to.names.join("/");
        if to.array.as_ref() != array {
            return Err(Error::bad_request(format!(
                "'set' changes the elements that 'match' names, or the item where it names none: '{}' is elsewhere",
                text()
            )));
        }
        let first = &to.segments()[0];
        let is_servers = |name: &str| name == "id" || shardlake_document::is_system_property(name);
        if matches!(first, shardlake_model::IndexPathSegment::Name(name) if to.array.is_none() && is_servers(name))
        {
            return Err(Error::bad_request(format!(
                "'set' may not change '/{}': the id and system properties belong to the server",
                text()
            )));
        }
        if matches.iter().any(|(_, target)| target.overlaps(to)) {
            return Err(Error::bad_request(format!("'set' changes '{}', which 'match' looks for", text())));
        }
        if set[..place].iter().any(|(_, other)| other.overlaps(to)) {
            return Err(Error::bad_request(format!("'set' changes '{}' twice", text())));
        }
    }
    Ok(())
}

fn query<'p>(paths: impl Iterator<Item = &'p Path>) -> String {
    let conditions: Vec<String> = paths
        .enumerate()
        .map(|(place, path)| format!("{} = @m{place}", expression("c", &path.names)))
        .collect();
    format!("SELECT * FROM c WHERE {}", conditions.join(" AND "))
}

fn target_query(matches: &[(Path, Path)], array: Option<&Vec<String>>) -> String {
    let Some(array) = array else { return query(matches.iter().map(|(_, target)| target)) };
    let (mut of_item, mut of_element) = (Vec::new(), Vec::new());
    for (place, (_, target)) in matches.iter().enumerate() {
        let root = if target.array.is_some() { "e" } else { "c" };
        let condition = format!("{} = @m{place}", expression(root, &target.names));
        if target.array.is_some() { of_element.push(condition) } else { of_item.push(condition) }
    }
    let conditions = of_element.join(" AND ");
    of_item.push(format!("EXISTS(SELECT VALUE e FROM e IN {} WHERE {conditions})", expression("c", array)));
    format!("SELECT * FROM c WHERE {}", of_item.join(" AND "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(changes: serde_json::Value) -> Result<Compiled> {
        let mut rule = json!({
            "id": "names", "source": { "database": "d", "container": "s", "filter": { "/type": ["a", "b"] } },
            "target": { "database": "d", "container": "t" },
            "match": [{ "source": "/id", "target": "/x" }], "set": [{ "from": "/name", "to": "/y" }],
        });
        for (name, value) in changes.as_object().expect("an object") {
            rule[name] = value.clone();
        }
        compile(&serde_json::from_value::<ProjectionRule>(rule).expect("well-formed"))
    }

    #[test]
    fn queries_name_the_values_that_match() {
        let plain = rule(json!({})).expect("valid");
        assert_eq!(plain.target_query, r#"SELECT * FROM c WHERE c["x"] = @m0"#);
        assert_eq!(plain.source_query, r#"SELECT * FROM c WHERE c["id"] = @m0"#);
        let elements = rule(json!({
            "match": [{ "source": "/id", "target": "/tags/[]/id" }, { "source": "/k", "target": "/k" }],
            "set": [{ "from": "/name", "to": "/tags/[]/name" }],
        }));
        assert_eq!(
            elements.expect("valid").target_query,
            r#"SELECT * FROM c WHERE c["k"] = @m1 AND EXISTS(SELECT VALUE e FROM e IN c["tags"] WHERE e["id"] = @m0)"#
        );
    }

    #[test]
    fn a_filter_compares_as_queries_do() {
        let rule =
            rule(json!({ "source": { "database": "d", "container": "s", "filter": { "/n/m": [1, null] } } }));
        let rule = rule.expect("valid");
        for (json, covered) in [
            (r#"{"n":{"m":1.0}}"#, true),
            (r#"{"n":{"m":null}}"#, true),
            (r#"{"n":{"m":"1"}}"#, false),
            ("{}", false),
        ] {
            let item = Value::from_json(json.as_bytes(), &ParseLimits::default()).expect("JSON");
            assert_eq!(rule.covers(&item), covered, "{json}");
        }
    }

    #[test]
    fn rules_that_cannot_be_kept_are_refused_by_name() {
        for (changes, words) in [
            (json!({ "id": "a/b" }), "the id of a projection"),
            (json!({ "match": [] }), "'match'"),
            (json!({ "set": [] }), "'set'"),
            (json!({ "set": [{ "from": "/a/[]/b", "to": "/y" }] }), "without '[]'"),
            (json!({ "set": [{ "from": "/a", "to": "/tags/[]/y" }] }), "elsewhere"),
            (json!({ "set": [{ "from": "/a", "to": "/id" }] }), "belong to the server"),
            (json!({ "set": [{ "from": "/a", "to": "/_etag/x" }] }), "belong to the server"),
            (json!({ "set": [{ "from": "/a", "to": "/x/y" }] }), "looks for"),
            (json!({ "set": [{ "from": "/a", "to": "/y" }, { "from": "/b", "to": "/y/z" }] }), "twice"),
            (json!({ "deadLetters": "t" }), "dead letters need"),
            (
                json!({ "source": { "database": "d", "container": "s", "filter": { "/a": {} } } }),
                "compares with",
            ),
        ] {
            let error = rule(changes.clone()).expect_err(&changes.to_string()).to_string();
            assert!(error.contains(words), "{changes}: {error}");
        }
    }
}
