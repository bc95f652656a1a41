//! Budgets of request units.
//!
//! A container's throughput is divided over its physical partitions ([`shares_of`]); each partition hands out its share by a
//! token bucket ([`Bucket`]), and a database's containers may draw from one bucket together. Charges are hundredths of a
//! request unit, as everywhere.
//!
//! | file | contents |
//! |---|---|
//! | `bucket.rs` | the token bucket: rate, capacity, debt, burst credit, priorities |
//! | `shares.rs` | how a total is divided over partitions |
//! | `container.rs` | the budgets of a container and of its partitions, through changes of its ranges and its offer |

mod bucket;
mod container;
mod shares;

pub use bucket::{Bucket, Burst, Refusal};
pub use container::{
    Allowance, BudgetReport, BudgetRules, ContainerBudget, PartitionBudget, RangeThroughput, Reservation,
    Spent,
};
pub use shares::{fractions_of, shares_of};

/// Order in which operations are refused when a budget runs low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Urgency {
    #[default]
    High,
    /// Refused while less than [`LOW_PRIORITY_RESERVE_PERCENT`] of the capacity is left.
    Low,
}

/// The part of a bucket's capacity that only operations of high priority may use.
pub const LOW_PRIORITY_RESERVE_PERCENT: u64 = 30;

/// Throughput of a serverless container: the larger of 5,000 RU/s and 1,000 RU/s per partition.
pub fn serverless_throughput(partitions: usize) -> u64 {
    5_000.max(1_000 * partitions as u64)
}

/// The RU/s that an autoscale container is scaled to: as much of its maximum as its busiest partition used of its share,
/// in a recent second, and never less than a tenth.
pub fn scaled_throughput(max_throughput: u64, reports: &[(u32, BudgetReport)]) -> u64 {
    let percent = |report: &BudgetReport| (report.peak_centi * 100).div_ceil(report.rate_centi.max(1));
    let busiest = reports.iter().map(|(_, report)| percent(report)).max().unwrap_or(0);
    let scaled = max_throughput * busiest.clamp(10, 100) / 100;
    assert!(scaled <= max_throughput, "autoscale never exceeds its maximum");
    scaled
}
