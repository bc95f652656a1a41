//! Where a page ends, and how much a query may hold.

use serde::{Deserialize, Serialize};

/// Bytes that collected entries may hold beyond those of a page.
pub(super) const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLimits {
    pub rows: usize,
    pub size_bytes: usize,
}
