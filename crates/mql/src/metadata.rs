//! Metadata of documents that statements name by `$meta`, where a stage or a query made them.

use crate::error::{Result, fail};
use crate::value::{Document, Value};

const NOT_AVAILABLE: i32 = 40218;

/// Refuses the kinds of `$meta` that nothing before this place has made. Text queries are refused, so that no document has a text score.
/// The distance of a place and the place exist behind `$geoNear` or `$near`.
pub(crate) fn check(value: &Value, has_distance: bool) -> Result<()> {
    match value {
        Value::Document(document) => check_members(document, has_distance),
        Value::Array(items) => items.iter().try_for_each(|item| check(item, has_distance)),
        _ => Ok(()),
    }
}

/// Like [`check`] for the members of a document.
pub(crate) fn check_members(document: &Document, has_distance: bool) -> Result<()> {
    for (name, value) in document.iter() {
        let words = match (&**name, value.as_str()) {
            ("$literal" | "$const", _) => continue,
            ("$meta", Some("textScore")) => "text score",
            ("$meta", Some("geoNearDistance")) if !has_distance => "$near distance",
            ("$meta", Some("geoNearPoint")) if !has_distance => "$near point",
            _ => {
                check(value, has_distance)?;
                continue;
            }
        };
        fail!(NOT_AVAILABLE, "query requires {words} metadata, but it is not available");
    }
    Ok(())
}
