//! Names of collections as ids of their containers.

use std::borrow::Cow;

use shardlake_document::{escaped_id, unescaped_id};

/// In front of the id of a container whose collection has a name that no container may have.
const ESCAPED: &str = "$str:";

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
