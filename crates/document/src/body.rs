//! An item body: an owned BSON document that has passed validation.

use crate::error::DocumentError;
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

/// A validated BSON document without system properties at top level.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(Vec<u8>);

impl Body {
    /// Accepts bytes written by this crate's own writer, which cannot be wrong except in size.
    pub(crate) fn from_writer(bytes: Vec<u8>) -> Result<Body, DocumentError> {
        let size_bytes_max = i32::MAX as usize;
        if bytes.len() > size_bytes_max {
            return Err(DocumentError::TooLarge { size_bytes: bytes.len(), size_bytes_max });
        }
        Ok(Body(bytes))
    }

    /// Accepts a BSON document from outside, with values of every kind, and keeps its bytes as they are.
    /// Refuses damaged bytes, names that occur twice, names that only the server may use at top level, and
    /// code with scope in the shape of a name with U+0000 (`bson_writer.rs`).
    pub fn from_bson(bytes: Vec<u8>) -> Result<Body, DocumentError> {
        let document = RawDocument::validate(&bytes)?;
        let reserved = |element: &RawElement<'_>| element.name().is_some_and(is_system_property);
        if let Some(name) = document.elements().find(reserved).and_then(|element| element.name()) {
            return Err(DocumentError::ReservedProperty { name: name.to_owned() });
        }
        check_names(RawValue::Object(document))?;
        Body::from_writer(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn raw(&self) -> RawDocument<'_> {
        RawDocument::assume_valid(&self.0)
    }
}

fn check_names(value: RawValue<'_>) -> Result<(), DocumentError> {
    match value {
        RawValue::Object(document) => {
            let mut names: Vec<&str> = Vec::new();
            for (name, value) in document.iter() {
                if name.contains('\0') {
                    return Err(DocumentError::CorruptBody { what: "code with scope stands for a member" });
                }
                names.push(name);
                check_names(value)?;
            }
            names.sort_unstable();
            match names.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(DocumentError::DuplicateProperty { name: pair[0].to_owned() }),
                None => Ok(()),
            }
        }
        RawValue::Array(array) => array.iter().try_for_each(check_names),
        RawValue::NonJson(value) => {
            value.scope().map_or(Ok(()), |scope| check_names(RawValue::Object(scope)))
        }
        _ => Ok(()),
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.raw(), formatter)
    }
}
