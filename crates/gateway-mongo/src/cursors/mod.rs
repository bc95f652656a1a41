//! Cursors: results that are read batch by batch.

mod registry;
mod source;

pub use registry::{CursorLimits, Cursors, Killed, NewCursor, Owner};
pub use source::{BATCH_SIZE_BYTES_MAX, Batch, BatchSource, FIRST_BATCH_DOCUMENTS, Listed, Wants};
