//! What a document that a client sends may cost, and which numbers it may hold.

use shardlake_model::{Limits, Numbers};

/// More nesting than this is refused whatever the limits say: code that walks values may recurse
/// this deep.
pub const NESTING_CEILING: usize = 256;

/// BSON lengths are 32-bit and an array of digits grows about sevenfold; texts above this are
/// refused whatever the limits say.
pub(crate) const SIZE_CEILING_BYTES: usize = 128 * 1024 * 1024;

/// What the text of a document may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    /// Levels of objects and arrays, the root being the first; at most [`NESTING_CEILING`].
    pub nesting_max: usize,
    /// Bytes of JSON text.
    pub size_max_bytes: usize,
    /// Numbers that are kept: [`ParseLimits::of_items`]. Numbers that are only computed with are
    /// rounded.
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
