//! Cost figures of a query page, range by range, for users who analyse expensive queries.
//!
//! Ranges share the charge of the page in proportion to their standalone costs, to the hundredth: their
//! charges add up to the page's. Shared costs of the page (the merge, functions) are divided in the same way.

use std::borrow::Cow;

use std::time::Duration;

use shardlake_partition::{QueryPage, QueryStatistics};
use shardlake_sql::QueryOutline;

#[derive(Debug, Clone, Default)]
pub struct QueryFigures {
    /// In the order in which they were read; for a plan, in the order of the hash space.
    pub ranges: Vec<RangeFigures>,
    /// The answers of several partitions are merged.
    pub merges: bool,
    /// The time of the merge, after the last partition's answer.
    pub merge: Duration,
    pub outline: QueryOutline,
    /// Conditions that the index answers, in words; empty where it answers none.
    pub access: String,
}

#[derive(Debug, Clone, Default)]
pub struct RangeFigures {
    pub range_id: u32,
    pub charge_centi: u64,
    /// The time of reading and evaluation, while other partitions also worked.
    pub elapsed: Duration,
    /// The part of it that was evaluation: conditions, functions, groups, projections.
    pub evaluation: Duration,
    pub statistics: QueryStatistics,
    /// `None` where nothing was read.
    pub access: Option<Cow<'static, str>>,
    /// Its standalone cost.
    pub(crate) weight: u64,
}

impl QueryFigures {
    pub(crate) fn note(&mut self, range_id: u32, page: &QueryPage, weight: u64) {
        let range = match self.ranges.iter().position(|range| range.range_id == range_id) {
            Some(place) => &mut self.ranges[place],
            None => {
                self.ranges.push(RangeFigures { range_id, ..RangeFigures::default() });
                self.ranges.last_mut().expect("pushed above")
            }
        };
        range.elapsed += page.elapsed;
        range.evaluation += page.evaluation;
        range.statistics.add(&page.statistics);
        range.access = Some(page.access.clone());
        range.weight += weight;
    }

    /// Divides the charge of the page among the ranges.
    pub(crate) fn divide(&mut self, charge_centi: u64) {
        let weights: Vec<u64> = self.ranges.iter().map(|range| range.weight).collect();
        for (range, part) in self.ranges.iter_mut().zip(apportioned(charge_centi, &weights)) {
            range.charge_centi = part;
        }
    }
}

/// Divides a sum by weight into integer parts that add up to it; equal parts if all weights are zero. Charges
/// are far below 2^60.
fn apportioned(sum: u64, weights: &[u64]) -> Vec<u64> {
    let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let count = weights.len() as u128;
    let (mut below, mut given) = (0_u128, 0_u128);
    let part = |(place, weight): (u128, &u64)| {
        below += u128::from(*weight);
        // Rounding the running sum leaves no remainder at the end.
        let upto = match total {
            0 => u128::from(sum) * (place + 1) / count.max(1),
            total => u128::from(sum) * below / total,
        };
        let part = upto - given;
        given = upto;
        part as u64
    };
    let parts: Vec<u64> = (0..count).zip(weights).map(part).collect();
    let is_whole = parts.is_empty() || parts.iter().sum::<u64>() == sum;
    assert!(is_whole, "the parts of a charge add up to the charge");
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        for (sum, weights) in [
            (100, vec![1, 1, 1]),
            (7, vec![0, 0, 0]),
            (281, vec![900, 1, 99]),
            (0, vec![5]),
            (1, vec![3, 3]),
            (u64::MAX >> 8, vec![u64::MAX >> 8, u64::MAX >> 8]),
        ] {
            let parts = apportioned(sum, &weights);
            assert_eq!(parts.iter().map(|part| u128::from(*part)).sum::<u128>(), u128::from(sum));
        }
        assert_eq!(apportioned(1_000, &[900, 100]), [900, 100]);
        assert_eq!(apportioned(5, &[]), [0_u64; 0]);
    }
}
