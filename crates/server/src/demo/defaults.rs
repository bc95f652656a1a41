//! Sizes of demos where none are named.

pub const DEFAULT_CUSTOMERS: u64 = 500;
pub const DEFAULT_SEED_NUMBER: u64 = 1;
