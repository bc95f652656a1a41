//! What a document that a client sends may cost.

/// More nesting than this is refused whatever the limits say: code that walks values may recurse this deep.
pub const NESTING_CEILING: usize = 256;

/// BSON lengths are 32-bit and an array of digits grows about sevenfold; texts above this are refused whatever the limits say.
pub(crate) const SIZE_CEILING_BYTES: usize = 128 * 1024 * 1024;

/// What the text of a document may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Levels of objects and arrays, the root being the first; at most [`NESTING_CEILING`].
    pub nesting_max: usize,
    /// Bytes of JSON text.
    pub size_max_bytes: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        ParseLimits { nesting_max: 128, size_max_bytes: 2 * 1024 * 1024 }
    }
}
