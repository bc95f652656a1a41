//! Where a page ends.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    pub rows: usize,
    pub size_bytes: usize,
}
