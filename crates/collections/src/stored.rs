//! Documents to bodies of items and back.

use shardlake_document::Body;
use shardlake_mql::{Document, Value};

use crate::failure::{Failure, Result};
use crate::identity::{Identity, value_of};
use crate::names::{may_differ, shown_name, stored_name};

/// What a document may take, as its client sends it.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
const OBJECT_TOO_LARGE: i32 = 10334;

/// The body that holds a document, and its identity. The document has an `_id`.
pub fn body_of(document: &Document) -> Result<(Body, Identity)> {
    let identity = Identity::of(&document.value("_id"))?;
    let stored: Document = document
        .iter()
        .map(|(name, value)| match &**name {
            "_id" => ("id".into(), identity.stored.clone()),
            _ if may_differ(name) => (stored_name(name).as_ref().into(), value.clone()),
            _ => (name.clone(), value.clone()),
        })
        .collect();
    let bytes = stored.to_bytes();
    if bytes.len() > DOCUMENT_BYTES_MAX {
        // Its names may be longer in storage: what the client sent counts.
        let size = document.size();
        if size > DOCUMENT_BYTES_MAX {
            let words =
                format!("BSONObj size: {size} is invalid. Size must be between 0 and {DOCUMENT_BYTES_MAX}");
            return Err(Failure::new(OBJECT_TOO_LARGE, words));
        }
    }
    let body = Body::from_bson(bytes).map_err(|error| Failure::new(2, error.to_string()))?;
    Ok((body, identity))
}

/// The document that a stored body holds.
pub fn document_of(body: &[u8]) -> Result<Document> {
    let stored = Document::from_bytes(body)?;
    if !stored.iter().any(|(name, _)| may_differ(name)) {
        return Ok(stored);
    }
    let shown: Document = stored
        .iter()
        .map(|(name, value)| match (&**name, value) {
            ("id", Value::String(text)) => ("_id".into(), value_of(text)),
            _ if may_differ(name) => (shown_name(name).as_ref().into(), value.clone()),
            _ => (name.clone(), value.clone()),
        })
        .collect();
    Ok(id_first(shown))
}

/// With the identity before everything else.
pub fn id_first(mut document: Document) -> Document {
    let is_first = document.first().is_none_or(|(name, _)| &**name == "_id");
    if !is_first && let Some(id) = document.remove("_id") {
        document.push_front("_id", id);
    }
    document
}
