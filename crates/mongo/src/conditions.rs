//! Rules that conditions of filters share under every collation.

use shardlake_mql::Document;
use shardlake_sql::Predicate;

/// Values of one `$in` that are looked up one by one.
pub(crate) const IN_MAX: usize = 1000;

/// Whether a document states operators rather than a value.
pub(crate) fn is_operators(document: &Document) -> bool {
    document.first().is_some_and(|(name, _)| name.starts_with('$'))
}

/// Arrays on the way to a path.
pub(crate) fn hidden_in(path: &[String]) -> Vec<Predicate> {
    (1..path.len()).map(|length| Predicate::IsArray { path: path[..length].to_vec() }).collect()
}
