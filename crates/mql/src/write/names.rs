//! Names at the top level of a document, as MongoDB and as the stored item spell them (spec mongo.md §11.1).
//!
//! The identity is `_id` here and `id` there; the server's own properties keep their names there. A name that the other side
//! uses for something else gets a `$` in front, or loses one: a bijection.

use std::borrow::Cow;

/// Names that stored items use for something else, but for the identity's.
const TAKEN: [&str; 6] = ["id", "_rid", "_self", "_etag", "_attachments", "_ts"];

/// A name without its leading dollars.
fn bare(name: &str) -> &str {
    name.trim_start_matches('$')
}

/// The stored name of a document's member.
pub fn stored_name(name: &str) -> Cow<'_, str> {
    match bare(name) {
        "_id" if name == "_id" => Cow::Borrowed("id"),
        "_id" => Cow::Borrowed(&name[1..]),
        plain if TAKEN.contains(&plain) => Cow::Owned(format!("${name}")),
        _ => Cow::Borrowed(name),
    }
}

/// The name that a document shows for a stored member.
pub fn shown_name(name: &str) -> Cow<'_, str> {
    match bare(name) {
        "id" if name == "id" => Cow::Borrowed("_id"),
        "_id" => Cow::Owned(format!("${name}")),
        plain if name.starts_with('$') && TAKEN.contains(&plain) => Cow::Borrowed(&name[1..]),
        _ => Cow::Borrowed(name),
    }
}

/// Whether a member may be spelled otherwise by the other side.
pub(crate) fn may_differ(name: &str) -> bool {
    matches!(name.as_bytes().first(), Some(b'$' | b'_' | b'i'))
}

/// The stored path of a dotted path.
pub fn stored_path(path: &str) -> Vec<String> {
    let mut parts = path.split('.');
    let first = parts.next().map(|first| stored_name(first).into_owned());
    first.into_iter().chain(parts.map(str::to_owned)).collect()
}

/// The dotted path of a stored path.
pub fn shown_path(path: &[String]) -> String {
    let first = path.first().map(|first| shown_name(first).into_owned());
    let parts: Vec<String> = first.into_iter().chain(path.iter().skip(1).cloned()).collect();
    parts.join(".")
}
