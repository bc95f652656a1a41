//! Documents to bodies of items and back.
//!
//! A body's `id` is the identity's text. If the text does not encode the type of a scalar, such as a long or a decimal,
//! the member `_id` keeps the value. An `_id` that is a document is the `id` itself, since paths lead into it; earlier
//! builds stored every such value so.

use std::borrow::Cow;

use super::identity::{Identity, identity_value, typed_text};
use super::names::{may_differ, shown_name, stored_name};
use crate::error::{BAD_VALUE, Error, OVERFLOW, Result, error, fail};
use crate::value::{Document, NESTING_MAX, Value, bytes_of_members, is_within_nesting};
use shardlake_document::{Body, BsonKind, DocumentError, RawDocument, RawValue};

/// Size limit of a document as its client sends it.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
const OBJECT_TOO_LARGE: i32 = 10334;
/// Bytes of a level of documents, at least.
const LEVEL_BYTES_MIN: usize = 7;

/// The member that keeps an `_id` if the identity's text does not encode its type.
const BESIDE: &str = "_id";

fn is_told_beside(stored: &Value) -> bool {
    !matches!(stored, Value::String(_) | Value::Document(_))
}

/// Whether a member `_id` is the identity with this text, rather than a client's member of the same stored name.
fn is_identity(value: &Value, text: &str) -> bool {
    is_told_beside(value) && typed_text(value).is_some_and(|own| own == text)
}

/// The body that holds a document, and its identity. The document has an `_id`.
pub fn body_of(document: &Document) -> Result<(Body, Identity)> {
    let identity = Identity::of(&document.value("_id"))?;
    let size = document.size();
    let text = Value::String(identity.text.clone());
    // A client's member of this name is stored under the other spelling.
    let is_free = || !document.iter().any(|(name, _)| stored_name(name) == BESIDE);
    let beside = Some(&identity.stored).filter(|stored| is_told_beside(stored) && is_free());
    let members = document.iter().map(|(name, value)| match &**name {
        "_id" if beside.is_some() => (Cow::Borrowed("id"), &text),
        "_id" => (Cow::Borrowed("id"), &identity.stored),
        _ if may_differ(name) => (stored_name(name), value),
        _ => (Cow::Borrowed(&**name), value),
    });
    let beside = beside.map(|value| (Cow::Borrowed(BESIDE), value));
    // Fewer bytes hold fewer levels.
    if size > NESTING_MAX * LEVEL_BYTES_MIN && !is_within_nesting(document) {
        fail!(OVERFLOW, "Document exceeds maximum nesting depth of {NESTING_MAX}");
    }
    let bytes = bytes_of_members(members.chain(beside), size);
    if bytes.len() > DOCUMENT_BYTES_MAX {
        // Names may be longer in storage: the size that the client sent counts.
        if size > DOCUMENT_BYTES_MAX {
            fail!(
                OBJECT_TOO_LARGE,
                "BSONObj size: {size} is invalid. Size must be between 0 and {DOCUMENT_BYTES_MAX}"
            );
        }
    }
    let body = Body::from_written_bson(bytes).map_err(|error| refused_body(&error))?;
    Ok((body, identity))
}

/// The error of a document that cannot be stored.
pub(super) fn refused_body(refused: &DocumentError) -> Error {
    match refused {
        // Code with scope has two levels in JSON.
        DocumentError::TooDeep { nesting_max, .. } => {
            error!(OVERFLOW, "Document exceeds maximum nesting depth of {nesting_max} in its JSON form")
        }
        _ => error!(BAD_VALUE, "{refused}"),
    }
}

/// The document that a stored body holds.
pub fn document_of(body: &[u8]) -> Result<Document> {
    Ok(shown(Document::from_bytes(body)?))
}

/// The members of a stored body that `wanted` names.
pub fn members_of(body: RawDocument<'_>, wanted: impl Fn(&str) -> bool) -> Result<Document> {
    let mut bytes = BsonBytes::with_capacity(64);
    for element in body.elements() {
        let Some((name, kind)) = element.name().zip(element.kind()) else {
            return document_of(body.as_bytes());
        };
        let shown = if may_differ(name) { shown_name(name) } else { Cow::Borrowed(name) };
        if wanted(&shown) || (name == BESIDE && wanted("_id")) {
            bytes.push(kind, name, element.bytes());
        }
    }
    Ok(shown(Document::from_bytes(&bytes.finish())?))
}

/// The bytes of the document that a stored body holds: the stored bytes of its members, under MongoDB's names.
pub fn document_bytes_of(body: RawDocument<'_>) -> Result<Vec<u8>> {
    let mut bytes = BsonBytes::with_capacity(body.as_bytes().len() + 16);
    let mut is_beside = false;
    if let Some(id) = body.elements().find(|element| element.name() == Some("id")) {
        match id.value() {
            Some(RawValue::String(text)) if text.starts_with('$') => {
                let beside = body.elements().find(|element| element.name() == Some(BESIDE));
                if beside.is_some() {
                    let document = Document::from_bytes(body.as_bytes())?;
                    is_beside = document.get(BESIDE).is_some_and(|value| is_identity(value, text));
                }
                match beside.filter(|_| is_beside).and_then(|beside| Some((beside.kind()?, beside))) {
                    Some((kind, beside)) => bytes.push(kind, "_id", beside.bytes()),
                    None => bytes.push_value("_id", &identity_value(text)),
                }
            }
            _ => match id.kind() {
                Some(kind) => bytes.push(kind, "_id", id.bytes()),
                None => return document_of(body.as_bytes()).map(|document| document.to_bytes()),
            },
        }
    }
    for element in body.elements() {
        match element.name().zip(element.kind()) {
            Some(("id", _)) => {}
            Some((BESIDE, _)) if is_beside => {}
            Some((name, kind)) if may_differ(name) => bytes.push(kind, &shown_name(name), element.bytes()),
            Some((name, kind)) => bytes.push(kind, name, element.bytes()),
            None => return document_of(body.as_bytes()).map(|document| document.to_bytes()),
        }
    }
    Ok(bytes.finish())
}

/// A document in the making, of values that are BSON already.
struct BsonBytes(Vec<u8>);

impl BsonBytes {
    fn with_capacity(bytes: usize) -> BsonBytes {
        let mut out = Vec::with_capacity(bytes);
        out.extend([0; 4]);
        BsonBytes(out)
    }

    fn push(&mut self, kind: BsonKind, name: &str, value: &[u8]) {
        self.0.push(kind as u8);
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(0);
        self.0.extend_from_slice(value);
    }

    fn push_value(&mut self, name: &str, value: &Value) {
        let bytes = Document::one(name, value.clone()).to_bytes();
        assert!(bytes.len() > 4, "a document has its length and its end");
        self.0.extend_from_slice(&bytes[4..bytes.len() - 1]);
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(0);
        assert!(i32::try_from(self.0.len()).is_ok(), "a document fits its length field");
        let length = (self.0.len() as i32).to_le_bytes();
        self.0[..4].copy_from_slice(&length);
        self.0
    }
}

/// A document under MongoDB's names.
fn shown(stored: Document) -> Document {
    if !stored.iter().any(|(name, _)| may_differ(name)) {
        return stored;
    }
    let text = stored.get("id").and_then(Value::as_str);
    let beside = stored.get(BESIDE).filter(|value| text.is_some_and(|text| is_identity(value, text)));
    let shown: Document = stored
        .iter()
        .filter(|(name, _)| beside.is_none() || &***name != BESIDE)
        .map(|(name, value)| match (&**name, value) {
            ("id", Value::String(text)) => {
                ("_id".into(), beside.cloned().unwrap_or_else(|| identity_value(text)))
            }
            _ if may_differ(name) => (shown_name(name).as_ref().into(), value.clone()),
            _ => (name.clone(), value.clone()),
        })
        .collect();
    id_first(shown)
}

/// A document with `_id` as its first member.
pub fn id_first(mut document: Document) -> Document {
    let is_first = document.first().is_none_or(|(name, _)| &**name == "_id");
    if !is_first && let Some(id) = document.remove("_id") {
        document.push_front("_id", id);
    }
    document
}
