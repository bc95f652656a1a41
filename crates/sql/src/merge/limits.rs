//! How much a merge may hold.

/// Limit on the bytes that a merge keeps, beyond one chunk.
pub(super) const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
