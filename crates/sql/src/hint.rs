//! Advice for frequent mistakes in queries, next to the reference's code and message.
//!
//! Hints look at the text around the error's place. A mistake without a known remedy has none.

use crate::bind;
use crate::error::{Location, SqlError};
use crate::functions::Function;
use crate::syntax::ParsedQuery;
use crate::syntax::ast::{Collection, Query, Selection, Source};
use crate::syntax::lexer::is_reserved;

/// The error with its hint, where there is one. `query` is there when the text parses.
pub fn with_hint(error: SqlError, text: &str, query: Option<&ParsedQuery>) -> SqlError {
    match error {
        SqlError::Several(errors) => {
            SqlError::Several(errors.into_iter().map(|error| with_hint(error, text, query)).collect())
        }
        error => match of(&error, text, query.map(ParsedQuery::tree)) {
            Some(hint) => SqlError::Advised { error: Box::new(error), hint },
            None => error,
        },
    }
}

fn of(error: &SqlError, text: &str, tree: Option<&Query>) -> Option<String> {
    match error {
        SqlError::UnresolvedIdentifier { name, location } => unresolved(name, *location, text, tree?),
        SqlError::UnknownFunction { name, .. } => function(name),
        SqlError::InvalidToken { token, location } if token == ";" => {
            let is_last = after(text, *location).trim().is_empty();
            is_last.then(|| "a query ends without ';'".to_owned())
        }
        SqlError::Syntax { near, location } => {
            syntax(near, (before(text, *location), after(text, *location)))
        }
        _ => None,
    }
}

/// `c.pub-id` is a difference, `C` is not `c`, and a bare name is no property.
fn unresolved(name: &str, location: Location, text: &str, tree: &Query) -> Option<String> {
    let Some(alias) = tree.from.as_ref().and_then(first_alias) else {
        return Some("the query has no FROM: write FROM c, and properties as c.name".to_owned());
    };
    if let Some((path, property)) = before(text, location).strip_suffix('-').and_then(dotted) {
        return Some(format!(
            "'-' subtracts: write {path}[\"{property}-{name}\"] for a property of that name"
        ));
    }
    if is_alias_of_select(name, tree) {
        return Some(format!(
            "'{name}' is an alias of SELECT, which names members of the result: repeat its expression"
        ));
    }
    if alias.eq_ignore_ascii_case(name) {
        return Some(format!("names are case-sensitive: write {alias}"));
    }
    if after(text, location).starts_with('.') {
        return Some(format!("FROM names the item {alias}: write {alias} in place of {name}"));
    }
    Some(format!("write {alias}.{name} for a property of the item"))
}

/// The path that ends the text.
fn path_at_end(text: &str) -> Option<&str> {
    let is_of_path = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.');
    let start = text.rfind(|letter| !is_of_path(letter));
    let start = start.map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8));
    (start < text.len()).then_some(&text[start..])
}

/// The last name of a path that ends the text, and the path in front of it.
fn dotted(text: &str) -> Option<(&str, &str)> {
    let (path, property) = path_at_end(text)?.rsplit_once('.')?;
    (!path.is_empty() && !property.is_empty()).then_some((path, property))
}

fn is_alias_of_select(name: &str, tree: &Query) -> bool {
    match &tree.select.selection {
        Selection::Items(items) => items.iter().any(|item| item.alias.as_deref() == Some(name)),
        Selection::All | Selection::Value(_) => false,
    }
}

fn first_alias(from: &Collection) -> Option<&str> {
    match from {
        Collection::Aliased { alias: Some(alias), .. } | Collection::Iterate { alias, .. } => {
            Some(&alias.name)
        }
        Collection::Aliased { alias: None, source: Source::Path { root, path } } => {
            path.is_empty().then_some(&*root.name)
        }
        Collection::Aliased { alias: None, source: Source::Subquery(_) } => None,
        Collection::Join { left, .. } => first_alias(left),
    }
}

fn function(name: &str) -> Option<String> {
    let name = name.to_ascii_uppercase();
    let known = Function::all().map(Function::name).chain(bind::AGGREGATES);
    shardlake_stdx::near_miss(&name, known).map(|meant| format!("did you mean {meant}?"))
}

fn syntax(near: &str, (before, after): (&str, &str)) -> Option<String> {
    let words = before.to_ascii_uppercase();
    let words = words.trim_end();
    if let Some(path) = before.strip_suffix('.').and_then(path_at_end).filter(|_| is_reserved(near)) {
        return Some(format!("'{near}' is a reserved word: write {path}[\"{near}\"]"));
    }
    if near.eq_ignore_ascii_case("LIMIT") && !words.contains("OFFSET") {
        let count = after.split_whitespace().next().filter(|count| count.len() <= 20).unwrap_or("n");
        return Some(format!("LIMIT needs OFFSET: write OFFSET 0 LIMIT {count}"));
    }
    if near.eq_ignore_ascii_case("IS") {
        let path = before.trim_end();
        let path =
            path.rsplit(|letter: char| letter.is_whitespace() || letter == '(').next().unwrap_or_default();
        let path = if path.is_empty() { "c.name" } else { path };
        let is_negated = after.trim_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case("NOT "));
        let (function, sign) = if is_negated { ("NOT IS_NULL", "!=") } else { ("IS_NULL", "=") };
        return Some(format!("there is no operator IS: write {function}({path}), or {path} {sign} null"));
    }
    if near == "*" && words.ends_with("COUNT(") {
        return Some("write COUNT(1) to count items".to_owned());
    }
    let follows_join = words.rsplit_once("JOIN").is_some_and(|(_, rest)| !rest.contains("WHERE"));
    if near.eq_ignore_ascii_case("ON") && follows_join {
        return Some(
            "JOIN stays inside an item: write JOIN x IN c.array. Items of several containers are joined by the \
             client, or by $lookup through the MongoDB API"
                .to_owned(),
        );
    }
    None
}

/// The text behind a place.
fn after(text: &str, location: Location) -> &str {
    debug_assert!(location.start <= location.end, "a place ends behind its start");
    &text[before(text, Location { start: location.end, ..location }).len()..]
}

/// The text in front of a place.
fn before(text: &str, location: Location) -> &str {
    let mut units = 0;
    let end = text.char_indices().find(|(_, letter)| {
        let is_there = units >= location.start;
        units += letter.len_utf16();
        is_there
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use shardlake_stdx::Timestamp;

    use super::with_hint;
    use crate::{ComputedProperties, GeometryKind, PreparedQuery, QueryEnvironment, parse_query};

    /// The error's JSON of a query, as clients get it.
    fn complaint(text: &str) -> String {
        let computed = ComputedProperties::default();
        let environment = QueryEnvironment {
            computed: &computed,
            geometry: GeometryKind::default(),
            now: Timestamp::default(),
            random_seed: 0,
            scripts: None,
        };
        let failed = match parse_query(text) {
            Ok(query) => PreparedQuery::prepare(&query, &[], &environment)
                .err()
                .map(|error| with_hint(error, text, Some(&query))),
            Err(error) => Some(with_hint(error, text, None)),
        };
        failed.map(|error| error.to_json()).unwrap_or_default()
    }

    #[test]
    fn frequent_mistakes_have_a_hint_beside_the_code() {
        for (text, code, hint) in [
            ("SELECT * FROM c WHERE type = 'x'", "SC2001", "write c.type for a property of the item"),
            ("SELECT * FROM orders o WHERE type = 'x'", "SC2001", "write o.type for a property of the item"),
            ("SELECT * FROM c WHERE C.type = 'x'", "SC2001", "names are case-sensitive: write c"),
            (
                "SELECT * FROM orders WHERE c.id = '1'",
                "SC2001",
                "FROM names the item orders: write orders in place of c",
            ),
            ("SELECT VALUE type", "SC2001", "the query has no FROM"),
            ("SELECT c.a AS k FROM c ORDER BY k", "SC2001", "'k' is an alias of SELECT"),
            ("SELECT c.pub-id FROM c", "SC2001", "'-' subtracts: write c[\\\"pub-id\\\"] for a property"),
            ("SELECT 'é😀', c.a.pub-id FROM c", "SC2001", "'-' subtracts: write c.a[\\\"pub-id\\\"]"),
            ("SELECT COUNT(*) FROM c", "SC1001", "write COUNT(1) to count items"),
            ("SELECT * FROM c JOIN d ON c.id = d.id", "SC1001", "JOIN stays inside an item"),
            ("SELECT * FROM c LIMIT 5", "SC1001", "LIMIT needs OFFSET: write OFFSET 0 LIMIT 5"),
            (
                "SELECT * FROM c WHERE c.a IS NULL",
                "SC1001",
                "there is no operator IS: write IS_NULL(c.a), or c.a = null",
            ),
            (
                "SELECT * FROM c WHERE (c.a is not null)",
                "SC1001",
                "there is no operator IS: write NOT IS_NULL(c.a), or c.a != null",
            ),
            ("SELECT c.order FROM c", "SC1001", "'order' is a reserved word: write c[\\\"order\\\"]"),
            (
                "SELECT * FROM c WHERE c.a.Value = 1",
                "SC1001",
                "'Value' is a reserved word: write c.a[\\\"Value\\\"]",
            ),
            ("SELECT * FROM c ;", "SC1010", "a query ends without ';'"),
            ("SELECT * FROM c;\n", "SC1010", "a query ends without ';'"),
            ("SELECT VALUE CONTAIN(c.a, 'b') FROM c", "SC2005", "did you mean CONTAINS?"),
            ("SELECT VALUE CUONT(1) FROM c", "SC2005", "did you mean COUNT?"),
        ] {
            let json = complaint(text);
            assert!(json.contains(&format!("\"code\":\"{code}\"")), "{text}: {json}");
            assert!(json.contains(&format!(",\"hint\":\"{hint}")), "{text}: {json}");
        }
    }

    #[test]
    fn other_mistakes_have_the_references_body_alone() {
        for text in ["SELECT * FROM c WHERE", "SELECT VALUE frobnicate(c) FROM c", "SELECT * FROM c ON c.x"] {
            let json = complaint(text);
            assert!(json.starts_with("{\"errors\"") && !json.contains("hint"), "{text}: {json}");
        }
    }
}
