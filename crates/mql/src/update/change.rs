//! The change of one value by an operator.

use crate::value::{Document, Value};

/// Change to one value.
pub(super) enum Change {
    None,
    Set(Value),
    Remove,
}

/// The document in which a value is changed.
#[derive(Clone, Copy)]
pub(super) struct Changed<'a> {
    /// Its content before the update.
    pub document: &'a Document,
    pub inserts: bool,
}
