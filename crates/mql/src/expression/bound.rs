//! Size limit of values that operators make.
//!
//! Operators that repeat each other double a value with every step, so each result is looked at before the next operator has it.
//! A value that is shared counts each time it is shared, as it would if it were written.

use crate::error::{Result, fail};
use crate::value::Value;

/// Four times the largest document, so that intermediate results fit.
pub(super) const VALUE_BYTES_MAX: usize = 64 << 20;
/// Of a value beside its text.
const VALUE_BYTES: usize = 16;

/// Room for the elements of one result.
pub(super) struct Room(usize);

impl Room {
    pub fn new() -> Room {
        Room(VALUE_BYTES_MAX)
    }

    /// Error 146 where all together take too much.
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

/// So many values.
pub(super) fn check_count(count: usize) -> Result<()> {
    check_bytes(count.saturating_mul(VALUE_BYTES))
}

fn too_large() -> Result<()> {
    fail!(146, "an expression made a value of more than {} MB", VALUE_BYTES_MAX >> 20)
}

/// Whether there was room; stops where there is not.
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
