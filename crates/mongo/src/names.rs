//! Names at the top level of a document, as MongoDB and as the stored item spell them (spec mongo.md §11.1).
//!
//! The identity is `_id` here and `id` there; the server's own properties keep their names there. A name that the other side
//! uses for something else gets a `$` in front, or loses one: a bijection.

use std::borrow::Cow;

use shardlake_document::{escaped_id, unescaped_id};

/// In front of the id of a container whose collection has a name that no container may have.
const ESCAPED: &str = "$str:";

/// Names that stored items use for something else, but for the identity's.
const TAKEN: [&str; 6] = ["id", "_rid", "_self", "_etag", "_attachments", "_ts"];

/// The id of the container of a collection. A name that no container may have is escaped as an `_id` is, and so is a name
/// that another one is escaped to.
pub fn container_id(name: &str) -> Cow<'_, str> {
    let is_plain = !name.contains(['/', '\\', '?', '#']) && !name.ends_with(' ');
    match is_plain && collection_of_escaped(name).is_none() {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("{ESCAPED}{}", escaped_id(name))),
    }
}

/// The name of the collection of a container.
pub fn collection_name(id: &str) -> Cow<'_, str> {
    collection_of_escaped(id).map_or(Cow::Borrowed(id), Cow::Owned)
}

/// The name that an id is the escaped form of, in its one spelling.
fn collection_of_escaped(id: &str) -> Option<String> {
    let name = unescaped_id(id.strip_prefix(ESCAPED)?)?;
    (container_id(&name) == id).then_some(name)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_container_may_have_are_escaped_and_read_back() {
        for (name, id) in [
            ("plain", "plain"),
            ("a.b c%d", "a.b c%d"),
            ("a/b", "$str:a%2Fb"),
            ("a\\b?c#d", "$str:a%5Cb%3Fc%23d"),
            ("50%/2", "$str:50%25%2F2"),
            ("end ", "$str:end%20"),
            (" ", "$str:%20"),
            ("é/ü", "$str:é%2Fü"),
            // A name that is an escaped form itself.
            ("$str:a%2Fb", "$str:%24str:a%252Fb"),
        ] {
            assert_eq!(container_id(name), id);
            assert_eq!(collection_name(id), name);
        }
        // Containers of the other protocol whose ids are no escaped form in its one spelling.
        for id in ["$str:a", "$str:a%2fb", "$str:%ZZ", "$str:", "$oid:0"] {
            assert_eq!(collection_name(id), id);
            assert_eq!(container_id(id), id);
        }
    }
}
