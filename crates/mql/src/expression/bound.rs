//! Size limit of values that operators make.
//!
//! Nested operators can double a value with every step, so each result is checked before the next operator gets it.
//! A value that is shared counts each time it is shared, as it would if it were written.

use crate::error::{Result, fail};
use crate::value::Value;

/// Four times the largest document, so that intermediate results fit.
pub(super) const VALUE_BYTES_MAX: usize = 64 << 20;
/// Bytes of a value in addition to its text.
const VALUE_BYTES: usize = 16;

/// Memory budget for the elements of one result.
pub(super) struct Room(usize);

impl Room {
    pub fn new() -> Room {
        Room(VALUE_BYTES_MAX)
    }

    /// Charges a value; error 146 if the total is too large.
    pub fn take(&mut self, value: &Value) -> Result<()> {
        if weigh(value, &mut self.0) { Ok(()) } else { too_large() }
    }
}

pub(super) fn check_value(value: &Value) -> Result<()> {
    match value {
        Value::String(_) | Value::Array(_) | Value::Document(_) => Room::new().take(value),
        _ => Ok(()),
    }
}

pub(super) fn check_bytes(bytes: usize) -> Result<()> {
    if bytes > VALUE_BYTES_MAX { too_large() } else { Ok(()) }
}

/// Checks the size of so many values.
pub(super) fn check_count(count: usize) -> Result<()> {
    check_bytes(count.saturating_mul(VALUE_BYTES))
}

fn too_large() -> Result<()> {
    fail!(146, "an expression made a value of more than {} MB", VALUE_BYTES_MAX >> 20)
}

/// Whether the value fits into the rest of the budget; stops at the first excess.
fn weigh(value: &Value, left: &mut usize) -> bool {
    let own = match value {
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => text.len(),
        Value::Binary(_, bytes) => bytes.len(),
        _ => 0,
    };
    let Some(after) = left.checked_sub(VALUE_BYTES + own) else { return false };
    *left = after;
    match value {
        Value::Array(items) => items.iter().all(|item| weigh(item, left)),
        Value::Document(document) => document.iter().all(|(_, member)| weigh(member, left)),
        _ => true,
    }
}
