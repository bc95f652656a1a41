//! Limits on the size, the nesting and the numbers of a client's document.

use shardlake_model::{Limits, Numbers};

/// Deeper nesting is always refused, because code that walks values may recurse this deep.
pub const NESTING_CEILING: usize = 256;

/// Larger texts are always refused: BSON lengths are 32-bit, and an array of digits grows about sevenfold.
pub(crate) const SIZE_CEILING_BYTES: usize = 128 * 1024 * 1024;

/// Limits on the text of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Levels of objects and arrays, the root being the first; at most [`NESTING_CEILING`].
    pub nesting_max: usize,
    /// Bytes of JSON text.
    pub size_max_bytes: usize,
    /// Which numbers are kept exactly: see [`ParseLimits::of_items`]. Numbers that are only used in
    /// computations are rounded.
    pub numbers: Numbers,
}

impl ParseLimits {
    /// For items, and for values that become parts of items.
    pub fn of_items(limits: &Limits) -> ParseLimits {
        ParseLimits {
            nesting_max: limits.nesting_max,
            size_max_bytes: limits.item_size_bytes_max,
            numbers: limits.numbers,
        }
    }
}

impl Default for ParseLimits {
    fn default() -> Self {
        ParseLimits { nesting_max: 128, size_max_bytes: 2 * 1024 * 1024, numbers: Numbers::Rounded }
    }
}
