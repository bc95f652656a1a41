//! Commands that are evaluated on the blocking pool, and the limit on their number.

use std::sync::Arc;

use shardlake_mql::{Document, Value};
use tokio::sync::Semaphore;

/// Maximum of concurrent evaluations of all clients. Further ones wait.
const AT_ONCE_MAX: usize = 16;
/// Largest filter, in values and names, that is compared on a thread that serves connections. Each of them may be compared with each
/// element of an array.
const NODES_MAX: usize = 64;

/// Permits of evaluations.
pub struct Places(pub Arc<Semaphore>);

impl Default for Places {
    fn default() -> Places {
        Places(Arc::new(Semaphore::new(AT_ONCE_MAX)))
    }
}

/// Whether a command has an expression of its client, or filters of many parts. Names have their meaning at the top of a command and of
/// its statements only: a filter may have fields of any name.
pub fn is_evaluated(body: &Document) -> bool {
    let mut nodes = 0;
    body.iter().any(|(name, value)| match (&**name, value) {
        // Documents are stored as they are, and `aggregate` evaluates its pipeline on the blocking pool by itself.
        ("documents" | "pipeline", _) => false,
        ("update", _) => is_update_evaluated(value),
        ("projection" | "fields" | "let", _) => computes(value) || scan(value, &mut nodes),
        ("explain", Value::Document(explained)) => is_evaluated(explained),
        ("updates" | "deletes" | "ops", Value::Array(statements)) => statements
            .iter()
            .filter_map(Value::as_document)
            .any(|statement| is_statement_evaluated(statement, &mut nodes)),
        _ => scan(value, &mut nodes),
    })
}

fn is_statement_evaluated(statement: &Document, nodes: &mut usize) -> bool {
    statement.iter().any(|(name, value)| match &**name {
        "document" => false,
        "u" | "updateMods" => is_update_evaluated(value),
        _ => scan(value, nodes),
    })
}

/// An update by a pipeline; others are changes of single fields.
fn is_update_evaluated(update: &Value) -> bool {
    matches!(update, Value::Array(_))
}

/// Whether there is an expression, or more parts than allowed together with those counted before.
fn scan(value: &Value, nodes: &mut usize) -> bool {
    *nodes += 1;
    match value {
        Value::Document(members) => {
            members.iter().any(|(name, value)| &**name == "$expr" || scan(value, nodes))
        }
        Value::Array(elements) => elements.iter().any(|element| scan(element, nodes)),
        _ => *nodes > NODES_MAX,
    }
}

/// Whether a field has an expression instead of a constant or a choice of existing values.
fn computes(value: &Value) -> bool {
    const CHOICES: [&str; 3] = ["$slice", "$elemMatch", "$meta"];
    match value {
        Value::Document(members) => members.iter().any(|(name, value)| match name.starts_with('$') {
            true => !CHOICES.contains(&&**name),
            false => computes(value),
        }),
        Value::Array(elements) => elements.iter().any(computes),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn commands_with_expressions_or_filters_of_many_parts_are_evaluated_beside() {
        let is_evaluated = |body: &bson::Document| {
            let bytes = body.to_vec().expect("BSON");
            is_evaluated(&Document::from_bytes(&bytes).expect("a document"))
        };
        let many = |count: i32| bson::Bson::from((0..count).collect::<Vec<_>>());
        let slow = doc! { "$expr": { "$gt": ["$a", 1] } };
        for body in [
            doc! { "find": "c", "filter": { "$or": [{ "a": 1 }, slow.clone()] } },
            doc! { "find": "c", "filter": { "a": { "$all": many(100) } } },
            doc! { "find": "c", "projection": { "x": { "$add": [1, 2] } } },
            doc! { "find": "c", "let": { "v": { "$range": [0, 9] } } },
            doc! { "aggregate": "c", "pipeline": [], "let": { "v": { "$range": [0, 9] } } },
            doc! { "update": "c", "updates": [{ "q": {}, "u": [{ "$set": { "x": 1 } }] }] },
            doc! { "findAndModify": "c", "query": {}, "update": [{ "$unset": "x" }] },
            doc! { "bulkWrite": 1, "ops": [{ "delete": 0, "filter": slow.clone() }] },
            doc! { "listCollections": 1, "filter": slow.clone() },
            doc! { "find": "c", "filter": { "documents": { "$all": many(100) } } },
            doc! { "find": "c", "filter": { "pipeline": { "u": { "$all": many(100) } } } },
            doc! { "find": "c", "projection": { "a": { "$elemMatch": { "$all": many(100) } } } },
            doc! { "delete": "c", "deletes": [{ "q": { "a": { "$all": many(100) } } }] },
            doc! { "explain": { "count": "c", "query": slow } },
        ] {
            assert!(is_evaluated(&body), "{body}");
        }
        for body in [
            doc! { "hello": 1 },
            doc! { "find": "c", "filter": { "a": { "$in": many(50) } }, "projection": { "a": 1, "l": { "$slice": 3 } } },
            doc! { "find": "c", "filter": { "_id": 1 }, "let": { "v": [1, 2] } },
            doc! { "aggregate": "c", "pipeline": [{ "$match": { "a": { "$all": many(100) } } }], "cursor": {} },
            doc! { "insert": "c", "documents": [{ "a": many(1000), "$expr": 1 }] },
            doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": many(1000) } } }] },
        ] {
            assert!(!is_evaluated(&body), "{body}");
        }
    }
}
