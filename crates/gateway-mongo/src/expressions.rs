//! Which commands evaluate beside the threads that serve connections, and how many of them at once.

use std::sync::Arc;

use shardlake_mql::{Document, Value};
use tokio::sync::Semaphore;

/// Evaluations of all clients at the same time; more of them wait.
const AT_ONCE_MAX: usize = 16;
/// Values and names of a filter that is compared on a thread that serves connections: each may be compared with each element of an array.
const NODES_MAX: usize = 64;

/// Places of commands that evaluate.
pub struct Places(pub Arc<Semaphore>);

impl Default for Places {
    fn default() -> Places {
        Places(Arc::new(Semaphore::new(AT_ONCE_MAX)))
    }
}

/// Whether a command has an expression of its client, or a filter of many parts. Documents that are stored as they come are not looked
/// at, nor are stages, which are evaluated beside by themselves.
pub fn is_evaluated(body: &Document) -> bool {
    let mut nodes = 0;
    body.iter().any(|(name, value)| evaluates(name, value, &mut nodes))
}

fn evaluates(name: &str, value: &Value, nodes: &mut usize) -> bool {
    *nodes += 1;
    match (name, value) {
        ("$expr", _) => true,
        // An update that is a pipeline.
        ("u" | "update" | "updateMods", Value::Array(_)) => true,
        ("u" | "update" | "updateMods" | "document" | "documents" | "pipeline", _) => false,
        ("projection" | "fields" | "let", Value::Document(fields)) => {
            fields.iter().any(|(_, value)| computes(value))
        }
        (_, Value::Document(members)) => members.iter().any(|(name, value)| evaluates(name, value, nodes)),
        (_, Value::Array(elements)) => elements.iter().any(|element| evaluates("", element, nodes)),
        _ => *nodes > NODES_MAX,
    }
}

/// Whether a field is more than a value, or a choice of what is there.
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
