//! Paths of resources, and the resource that a path names for the signature.
//!
//! A request is signed over the type and the *decoded* link of its resource, so the two have to be derived from the
//! encoded path exactly as the SDKs derive them. Tests that sign something else pass type and link themselves.

use crate::signature::SEGMENT;
use percent_encoding::{percent_decode_str, utf8_percent_encode};

pub fn database_path(database: &str) -> String {
    format!("/dbs/{}", encode(database))
}

pub fn container_path(database: &str, container: &str) -> String {
    format!("{}/colls/{}", database_path(database), encode(container))
}

pub fn items_path(database: &str, container: &str) -> String {
    format!("{}/docs", container_path(database, container))
}

pub fn item_path(database: &str, container: &str, id: &str) -> String {
    format!("{}/{}", items_path(database, container), encode(id))
}

fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

/// The resource type and the link that the signature of a request to `path` covers.
pub fn resource_of_path(path: &str) -> (String, String) {
    let path = path.split('?').next().unwrap_or_default();
    // Paths of the operator's interface are signed as they are sent.
    if path.starts_with("/_shardlake/") {
        return ("shardlake".to_owned(), path[1..].to_owned());
    }
    let decoded: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let names: Vec<&str> = decoded.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => (String::new(), String::new()),
        // Deleting a logical partition is signed as an operation on its container.
        [container @ .., "operations", _] => ("colls".to_owned(), spelled(container)),
        segments if segments.len() % 2 == 0 => (segments[segments.len() - 2].to_owned(), spelled(segments)),
        [parent @ .., kind] => ((*kind).to_owned(), spelled(parent)),
    }
}

/// A link made of rids is signed as its last rid alone, in lower case.
fn spelled(segments: &[&str]) -> String {
    let of_rids = match segments {
        ["offers", _] => true,
        ["dbs", database, ..] => is_database_rid(database),
        _ => false,
    };
    match segments.last() {
        Some(last) if of_rids => last.to_lowercase(),
        _ => segments.join("/"),
    }
}

/// The Python SDK's rule: eight characters of base64 that decode to four bytes.
fn is_database_rid(segment: &str) -> bool {
    use base64::Engine;
    segment.len() == 8
        && base64::engine::general_purpose::STANDARD
            .decode(segment.replace('-', "/"))
            .is_ok_and(|bytes| bytes.len() == 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, resource_type: &str, link: &str) {
        assert_eq!(resource_of_path(path), (resource_type.to_owned(), link.to_owned()), "{path}");
    }

    #[test]
    fn a_path_names_its_resource() {
        check("/", "", "");
        check("/dbs", "dbs", "");
        check("/dbs/shop", "dbs", "dbs/shop");
        check("/dbs/shop/", "dbs", "dbs/shop");
        check("/dbs/shop/colls/a%20b/docs", "docs", "dbs/shop/colls/a b");
        check("/dbs/shop/colls/c/docs/H%C3%A9llo", "docs", "dbs/shop/colls/c/docs/Héllo");
        check("/dbs/shop/colls/c/operations/partitionkeydelete", "colls", "dbs/shop/colls/c");
    }

    #[test]
    fn a_rid_link_is_its_last_rid_in_lower_case() {
        check("/offers/X7kE", "offers", "x7ke");
        check("/dbs/AAAAAQ==/colls/AAAAAYAAAAE=", "colls", "aaaaayaaaae=");
        check("/dbs/AAAAAQ==/colls", "colls", "aaaaaq==");
    }

    #[test]
    fn an_eight_letter_name_is_still_a_name() {
        check("/dbs/Database/colls", "colls", "dbs/Database");
    }

    #[test]
    fn segments_are_escaped_on_the_way_out() {
        assert_eq!(item_path("d b", "c", "50%"), "/dbs/d%20b/colls/c/docs/50%25");
    }
}
