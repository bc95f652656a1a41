//! Budgets of request units.
//!
//! A container's throughput is divided over its physical partitions ([`shares_of`]); each partition hands out its share by a
//! token bucket ([`Bucket`]). Charges are hundredths of a request unit, as everywhere.

mod bucket;
mod shares;

pub use bucket::{Bucket, Burst, Refusal};
pub use shares::shares_of;

/// Who is refused first when a budget runs low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Urgency {
    #[default]
    High,
    /// Refused while less than [`LOW_PRIORITY_RESERVE_PERCENT`] of the capacity is left.
    Low,
}

/// The part of a bucket's capacity that only operations of high priority may use.
pub const LOW_PRIORITY_RESERVE_PERCENT: u64 = 30;
