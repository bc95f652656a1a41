//! Cursors: results that are read batch by batch.

mod registry;
mod source;

pub use registry::{CursorLimits, Cursors, Killed, NewCursor, Owner};
pub use source::{Batch, BatchSource, FIRST_BATCH_DOCUMENTS, Listed, Wants};
