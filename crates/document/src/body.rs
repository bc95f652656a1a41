//! An item body: an owned BSON document that has passed validation.

use bytes::Bytes;

use crate::error::DocumentError;
use crate::limits::NESTING_CEILING;
use crate::raw::{RawDocument, RawElement, RawValue};

pub use shardlake_model::SYSTEM_PROPERTIES;

/// True for a top-level name that [`Body`] never contains.
pub fn is_system_property(name: &str) -> bool {
    system_property_index(name.as_bytes()).is_some()
}

pub(crate) fn system_property_index(name: &[u8]) -> Option<usize> {
    if name.first() != Some(&b'_') {
        return None;
    }
    SYSTEM_PROPERTIES.iter().position(|property| property.as_bytes() == name)
}

/// A validated BSON document without system properties at top level. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(Bytes);

impl Body {
    /// Accepts bytes written by this crate's own writer, which cannot be wrong except in size.
    pub(crate) fn from_writer(bytes: Vec<u8>) -> Result<Body, DocumentError> {
        let size_bytes_max = i32::MAX as usize;
        if bytes.len() > size_bytes_max {
            return Err(DocumentError::TooLarge { size_bytes: bytes.len(), size_bytes_max });
        }
        Ok(Body(bytes.into()))
    }

    /// Accepts a BSON document from outside, with values of every kind, and keeps its bytes as they are.
    /// Refuses damaged bytes, names that occur twice, names that only the server may use at top level, and
    /// code with scope in the shape of a name with U+0000 (`bson_writer.rs`).
    pub fn from_bson(bytes: Vec<u8>) -> Result<Body, DocumentError> {
        RawDocument::validate(&bytes)?;
        Body::from_written_bson(bytes)
    }

    /// As [`Body::from_bson`], for bytes that a writer of BSON has just made: only the names are checked.
    pub fn from_written_bson(bytes: Vec<u8>) -> Result<Body, DocumentError> {
        let document = RawDocument::assume_valid(&bytes);
        let reserved = |element: &RawElement<'_>| element.name().is_some_and(is_system_property);
        if let Some(name) = document.elements().find(reserved).and_then(|element| element.name()) {
            return Err(DocumentError::ReservedProperty { name: name.to_owned() });
        }
        check_names(RawValue::Object(document), 1)?;
        debug_assert!(RawDocument::validate(&bytes).is_ok(), "a writer of BSON makes valid documents");
        Body::from_writer(bytes)
    }

    /// Accepts the bytes of a body as another node has them, with its members whose names have U+0000 (`bson_writer.rs`).
    pub fn from_stored(bytes: Vec<u8>) -> Result<Body, DocumentError> {
        RawDocument::validate(&bytes)?;
        Body::from_writer(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    pub fn raw(&self) -> RawDocument<'_> {
        RawDocument::assume_valid(&self.0)
    }
}

/// Names of a document that are compared without memory of their own.
const FEW_NAMES: usize = 24;

/// Checks names and nesting; `level` is that of the value in JSON, the root being the first.
fn check_names(value: RawValue<'_>, level: usize) -> Result<(), DocumentError> {
    match value {
        RawValue::Object(_) | RawValue::Array(_) if level > NESTING_CEILING => {
            Err(DocumentError::TooDeep { nesting_max: NESTING_CEILING, offset: 0 })
        }
        RawValue::Object(document) => {
            let (mut few, mut many, mut count) = ([""; FEW_NAMES], Vec::new(), 0);
            for (name, value) in document.iter() {
                if name.contains('\0') {
                    return Err(DocumentError::CorruptBody { what: "code with scope stands for a member" });
                }
                match few.get_mut(count) {
                    Some(slot) => *slot = name,
                    None => many.push(name),
                }
                count += 1;
                check_names(value, level + 1)?;
            }
            let names = match many.is_empty() {
                true => &mut few[..count],
                false => {
                    many.extend_from_slice(&few);
                    &mut many[..]
                }
            };
            names.sort_unstable();
            match names.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(DocumentError::DuplicateProperty { name: pair[0].to_owned() }),
                None => Ok(()),
            }
        }
        RawValue::Array(array) => array.iter().try_for_each(|element| check_names(element, level + 1)),
        RawValue::NonJson(value) if level + value.shown_levels() - 1 > NESTING_CEILING => {
            Err(DocumentError::TooDeep { nesting_max: NESTING_CEILING, offset: 0 })
        }
        RawValue::NonJson(value) => {
            value.scope().map_or(Ok(()), |scope| check_names(RawValue::Object(scope), level + 1))
        }
        _ => Ok(()),
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.raw(), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson_writer::{BsonWriter, kind};

    /// Documents in one another; the innermost has a regular expression, or else null.
    fn nested_to(leaf: Option<u8>, levels: usize) -> Vec<u8> {
        let mut writer = BsonWriter::with_capacity(levels * 16);
        let mut open = vec![writer.reserve_length()];
        for _ in 1..levels {
            let slot = writer.member(b"a");
            open.push(writer.begin_document(slot, kind::DOCUMENT));
        }
        let slot = writer.member(b"n");
        match leaf {
            Some(kind) => writer.stored(slot, kind, b"a\0i\0"),
            None => writer.null(slot),
        }
        open.into_iter().rev().for_each(|length_at| writer.end_document(length_at));
        writer.out
    }

    fn nested(levels: usize) -> Vec<u8> {
        nested_to(None, levels)
    }

    #[test]
    fn the_json_form_has_the_limit_too() {
        for (levels, is_accepted) in [(1, true), (NESTING_CEILING - 2, true), (NESTING_CEILING - 1, false)] {
            let bytes = nested_to(Some(kind::REGEX), levels);
            // `{"$regularExpression":{"pattern":"a","options":"i"}}`
            let accepted = Body::from_bson(bytes.clone());
            assert_eq!(accepted.is_ok(), is_accepted, "{levels}");
            assert_eq!(Body::from_written_bson(bytes).is_ok(), is_accepted, "{levels}");
            if let Ok(body) = accepted {
                let mut text = Vec::new();
                crate::write_json(body.raw(), &mut text);
                let limits = crate::ParseLimits { nesting_max: NESTING_CEILING, ..Default::default() };
                assert!(crate::parse_document(&text, &limits).is_ok(), "{levels} levels are read back");
            }
        }
    }

    #[test]
    fn nesting_of_written_bson_has_the_limit_of_received_bson() {
        for (levels, is_accepted) in
            [(1, true), (NESTING_CEILING, true), (NESTING_CEILING + 1, false), (5_000, false)]
        {
            assert_eq!(Body::from_bson(nested(levels)).is_ok(), is_accepted, "{levels}");
            assert_eq!(Body::from_written_bson(nested(levels)).is_ok(), is_accepted, "{levels}");
        }
    }
}
