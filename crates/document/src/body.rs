//! An item body: an owned BSON document that has passed validation.

use crate::error::DocumentError;
use crate::raw::RawDocument;

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

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.raw(), formatter)
    }
}
