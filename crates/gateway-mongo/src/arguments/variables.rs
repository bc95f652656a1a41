//! Built-in variables and fields that expressions of a command may not name, because they are evaluated before a document is read or
//! where there is no such variable.

use shardlake_mql::{Document, Value};

use crate::errors::{Result, fail};

const NO_SUCH_VARIABLE: i32 = 51144;
const FIELD_IN_LET: i32 = 4_890_500;
const TIMES: [&str; 2] = ["NOW", "CLUSTER_TIME"];

/// Commands, their field with a filter, and the variables that its expressions may not use.
const FILTERS: [(&str, &str, [&str; 2]); 4] = [
    ("count", "query", TIMES),
    ("distinct", "query", TIMES),
    ("listCollections", "filter", TIMES),
    ("listDatabases", "filter", TIMES),
];

/// Checks the `let` of a command, and the expressions of its filter.
pub fn check_variables(command: &str, body: &Document) -> Result<()> {
    for (_, field, unavailable) in FILTERS.iter().filter(|(name, _, _)| *name == command) {
        if let Some(Value::Document(filter)) = body.get(field) {
            check_filter(filter, unavailable)?;
        }
    }
    let Some(Value::Document(variables)) = body.get("let") else { return Ok(()) };
    for (_, value) in variables.iter() {
        each_path(value, &mut |path| match path.strip_prefix("$$") {
            Some(variable) => {
                let name = variable.split('.').next().unwrap_or_default();
                match command {
                    // Variables of `let` are evaluated before the time is known.
                    "aggregate" if TIMES.contains(&name) => not_available(name),
                    _ if matches!(name, "ROOT" | "CURRENT") => field_in_let(),
                    _ => Ok(()),
                }
            }
            None => field_in_let(),
        })?;
    }
    Ok(())
}

fn not_available(name: &str) -> Result<()> {
    fail!(NO_SUCH_VARIABLE, "Builtin variable '$${name}' is not available")
}

fn field_in_let() -> Result<()> {
    fail!(
        FIELD_IN_LET,
        "Command let Expression tried to access a field, but this is not allowed because command let expressions run before the query examines any documents."
    )
}

/// Checks the expressions of a filter, which follow `$expr` at any depth.
fn check_filter(filter: &Document, unavailable: &[&str]) -> Result<()> {
    for (name, value) in filter.iter() {
        if &**name == "$expr" {
            each_path(value, &mut |path| {
                let variable = path.strip_prefix("$$").and_then(|variable| variable.split('.').next());
                match variable {
                    Some(name) if unavailable.contains(&name) => not_available(name),
                    _ => Ok(()),
                }
            })?;
            continue;
        }
        match value {
            Value::Document(inner) => check_filter(inner, unavailable)?,
            Value::Array(items) => {
                for inner in items.iter().filter_map(Value::as_document) {
                    check_filter(inner, unavailable)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Every path of a field or a variable in an expression, except within `$literal`.
fn each_path(expression: &Value, check: &mut impl FnMut(&str) -> Result<()>) -> Result<()> {
    match expression {
        Value::String(text) if text.len() > 1 && text.starts_with('$') => check(text),
        Value::Array(items) => items.iter().try_for_each(|item| each_path(item, check)),
        Value::Document(members) => members
            .iter()
            .filter(|(name, _)| &***name != "$literal")
            .try_for_each(|(_, value)| each_path(value, check)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(body: &bson::Document) -> Option<i32> {
        let body = Document::from_bytes(&body.to_vec().expect("BSON")).expect("BSON");
        let name = body.first().map(|(name, _)| name.to_string()).unwrap_or_default();
        check_variables(&name, &body).err().map(|error| error.code())
    }

    #[test]
    fn variables_of_a_command_read_no_document() {
        let lets =
            |command: &str, value: bson::Bson| code_of(&bson::doc! { command: "c", "let": { "v": value } });
        for command in ["aggregate", "find", "update", "delete", "findAndModify"] {
            assert_eq!(lets(command, "$a".into()), Some(4_890_500), "{command}");
            assert_eq!(lets(command, bson::doc! { "$add": [1, "$a.b"] }.into()), Some(4_890_500));
            assert_eq!(lets(command, "$$ROOT".into()), Some(4_890_500));
            assert_eq!(lets(command, bson::doc! { "$literal": "$a" }.into()), None);
            assert_eq!(lets(command, "$".into()), None);
            assert_eq!(lets(command, "$$earlier".into()), None);
        }
        assert_eq!(lets("aggregate", "$$NOW".into()), Some(51144));
        assert_eq!(lets("aggregate", "$$CLUSTER_TIME".into()), Some(51144));
        assert_eq!(lets("find", "$$NOW".into()), None);
    }

    #[test]
    fn times_are_no_variables_of_every_filter() {
        let late = bson::doc! { "$expr": { "$lt": ["$d", "$$NOW"] } };
        let either = bson::doc! { "$or": [{ "a": 1 }, late.clone()] };
        assert_eq!(code_of(&bson::doc! { "count": "c", "query": late.clone() }), Some(51144));
        assert_eq!(code_of(&bson::doc! { "distinct": "c", "query": either }), Some(51144));
        assert_eq!(code_of(&bson::doc! { "listCollections": 1, "filter": late.clone() }), Some(51144));
        assert_eq!(code_of(&bson::doc! { "find": "c", "filter": late }), None);
        // A text that is compared with is none.
        assert_eq!(code_of(&bson::doc! { "count": "c", "query": { "a": "$$NOW" } }), None);
    }
}
