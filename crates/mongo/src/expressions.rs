//! Filters that evaluate expressions.

use shardlake_mql::Value;

/// Whether a filter has an `$expr` anywhere.
pub(crate) fn has_expression(value: &Value) -> bool {
    match value {
        Value::Document(members) => {
            members.iter().any(|(name, value)| &**name == "$expr" || has_expression(value))
        }
        Value::Array(elements) => elements.iter().any(has_expression),
        _ => false,
    }
}
