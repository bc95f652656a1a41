//! Which commands evaluate expressions of their clients, and how many of them at once.

use std::sync::Arc;

use shardlake_mql::{Document, Value};
use tokio::sync::Semaphore;

/// Commands of all clients that evaluate at the same time; more of them wait.
const AT_ONCE_MAX: usize = 16;

/// Places of commands that evaluate.
pub struct Places(pub Arc<Semaphore>);

impl Default for Places {
    fn default() -> Places {
        Places(Arc::new(Semaphore::new(AT_ONCE_MAX)))
    }
}

/// Whether a command has expressions of its client, as far as it does not evaluate them beside by itself. Spellings of names do not
/// matter where a command is not known.
pub fn has_expression(command: &str, body: &Document) -> bool {
    const COMMANDS: [&str; 10] = [
        "find",
        "count",
        "distinct",
        "update",
        "delete",
        "findAndModify",
        "findandmodify",
        "bulkWrite",
        "explain",
        "getMore",
    ];
    COMMANDS.contains(&command) && body.iter().any(|(name, value)| evaluates(name, value))
}

fn evaluates(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("$expr", _) => true,
        // An update that is a pipeline.
        ("u" | "update" | "updateMods", Value::Array(_)) => true,
        ("projection" | "fields", Value::Document(fields)) => fields.iter().any(|(_, value)| computes(value)),
        (_, Value::Document(members)) => members.iter().any(|(name, value)| evaluates(name, value)),
        (_, Value::Array(elements)) => elements.iter().any(|element| evaluates("", element)),
        _ => false,
    }
}

/// Whether a field of a projection is more than a choice of what is there.
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
