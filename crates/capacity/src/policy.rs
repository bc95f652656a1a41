//! When physical partitions are split, and when a merge is worth while (engine.md §4.4 and §8.1; `docs/partitions.md`).
//!
//! | condition | consequence |
//! |---|---|
//! | a partition holds more than its limit | it is split where its bytes halve |
//! | a partition has more throughput by hand than one may have | it is split |
//! | the container's throughput exceeds the maximum of its partitions together | the widest partition is split, until it does not |
//! | neighbours hold little and hand out little, and fewer of them suffice | a merge is suggested, never begun |
//!
//! One step at a time: the next is decided when the last has ended.

/// View of a partition for the rules, in the order of the hash space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RangeView {
    pub range_id: u32,
    /// Share of the hash space that keys really use.
    pub width: f64,
    pub size_bytes: u64,
    /// RU/s set for it by name.
    pub share: Option<u64>,
    /// It holds more than one logical partition, as far as is known.
    pub is_divisible: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyLimits {
    pub partition_size_bytes_max: u64,
    /// RU/s of one partition.
    pub partition_throughput_max: u64,
    pub partitions_max: usize,
    /// A merge is for partitions that hold less than this, with less throughput than the next.
    pub merge_size_bytes_below: u64,
    pub merge_throughput_below: u64,
}

/// The next step of the policy for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    Nothing,
    Split {
        range_id: u32,
        reason: SplitReason,
    },
    /// Two neighbours that would do as one; an operator decides.
    SuggestMerge {
        range_ids: [u32; 2],
    },
    /// A partition should be split and cannot be.
    Stuck {
        range_id: u32,
        reason: SplitReason,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitReason {
    Storage,
    Throughput,
}

/// `throughput` is the most that the container may hand out in RU/s; `None` without a throughput of
/// its own.
pub fn next_step(ranges: &[RangeView], throughput: Option<u64>, limits: &PolicyLimits) -> NextStep {
    let has_room = ranges.len() < limits.partitions_max;
    let too_large = ranges.iter().filter(|range| range.size_bytes > limits.partition_size_bytes_max);
    let too_large = too_large.max_by_key(|range| (range.is_divisible, range.size_bytes));
    if let Some(range) = too_large {
        let (range_id, reason) = (range.range_id, SplitReason::Storage);
        return match range.is_divisible && has_room {
            true => NextStep::Split { range_id, reason },
            false => NextStep::Stuck { range_id, reason },
        };
    }
    if let Some(range) = over_throughput(ranges, throughput, limits) {
        let (range_id, reason) = (range.range_id, SplitReason::Throughput);
        return match has_room {
            true => NextStep::Split { range_id, reason },
            false => NextStep::Stuck { range_id, reason },
        };
    }
    suggest_merge(ranges, throughput, limits)
}

fn over_throughput<'r>(
    ranges: &'r [RangeView],
    throughput: Option<u64>,
    limits: &PolicyLimits,
) -> Option<&'r RangeView> {
    let by_name =
        ranges.iter().find(|range| range.share.is_some_and(|share| share > limits.partition_throughput_max));
    let together = limits.partition_throughput_max.saturating_mul(ranges.len() as u64);
    let widest = || {
        let order = |left: &&RangeView, right: &&RangeView| {
            let by_width = left.width.total_cmp(&right.width);
            by_width.then(left.size_bytes.cmp(&right.size_bytes)).then(right.range_id.cmp(&left.range_id))
        };
        ranges.iter().max_by(order)
    };
    by_name.or_else(|| if throughput? > together { widest() } else { None })
}

/// The pair that holds the least.
fn suggest_merge(ranges: &[RangeView], throughput: Option<u64>, limits: &PolicyLimits) -> NextStep {
    let count = ranges.len() as u64;
    let each = throughput.unwrap_or(0) / count.max(1);
    let would_do =
        |total: u64| total <= limits.partition_throughput_max.saturating_mul(count.saturating_sub(1));
    if count < 2 || each >= limits.merge_throughput_below || !would_do(throughput.unwrap_or(0)) {
        return NextStep::Nothing;
    }
    let pairs = ranges.windows(2).filter(|pair| {
        pair.iter().all(|range| range.size_bytes < limits.merge_size_bytes_below && range.share.is_none())
    });
    let lightest = pairs.min_by_key(|pair| pair[0].size_bytes + pair[1].size_bytes);
    match lightest {
        Some(pair) => NextStep::SuggestMerge { range_ids: [pair[0].range_id, pair[1].range_id] },
        None => NextStep::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: PolicyLimits = PolicyLimits {
        partition_size_bytes_max: 50,
        partition_throughput_max: 10_000,
        partitions_max: 200,
        merge_size_bytes_below: 20,
        merge_throughput_below: 3000,
    };

    fn even(count: usize, size_bytes: u64) -> Vec<RangeView> {
        let range = |place: usize| RangeView {
            range_id: place as u32,
            width: 1.0 / count as f64,
            size_bytes,
            share: None,
            is_divisible: true,
        };
        (0..count).map(range).collect()
    }

    #[test]
    fn throughput_splits_follow_the_documented_examples() {
        let split = |range_id| NextStep::Split { range_id, reason: SplitReason::Throughput };
        // Up to 10,000 RU/s for each partition at once, beyond that by splits.
        assert_eq!(next_step(&even(1, 30), Some(10_000), &LIMITS), NextStep::Nothing);
        assert_eq!(next_step(&even(1, 30), Some(11_000), &LIMITS), split(0));
        assert_eq!(next_step(&even(2, 30), Some(11_000), &LIMITS), NextStep::Nothing);
        // 45,000 RU/s over two: until there are five, the widest first.
        let mut ranges = even(2, 30);
        let mut order = Vec::new();
        while let NextStep::Split { range_id, .. } = next_step(&ranges, Some(45_000), &LIMITS) {
            let place = ranges.iter().position(|range| range.range_id == range_id).expect("there");
            let next_id = ranges.iter().map(|range| range.range_id).max().expect("there") + 1;
            let half = RangeView { width: ranges[place].width / 2.0, range_id: next_id, ..ranges[place] };
            ranges[place] = half;
            ranges.insert(place + 1, RangeView { range_id: next_id + 1, ..half });
            order.push(range_id);
        }
        assert_eq!((order, ranges.len()), (vec![0, 1, 2], 5));
        let mut named = even(3, 30);
        named[1].share = Some(12_000);
        assert_eq!(next_step(&named, Some(14_000), &LIMITS), split(1));
    }

    #[test]
    fn storage_goes_first_and_one_logical_partition_cannot_be_cut() {
        let mut ranges = even(3, 30);
        ranges[2].size_bytes = 51;
        let reason = SplitReason::Storage;
        assert_eq!(next_step(&ranges, Some(90_000), &LIMITS), NextStep::Split { range_id: 2, reason });
        ranges[2].is_divisible = false;
        assert_eq!(next_step(&ranges, None, &LIMITS), NextStep::Stuck { range_id: 2, reason });
        // Another one that can be cut comes before it.
        ranges[0].size_bytes = 51;
        assert_eq!(next_step(&ranges, None, &LIMITS), NextStep::Split { range_id: 0, reason });
        let full = PolicyLimits { partitions_max: 3, ..LIMITS };
        assert!(matches!(next_step(&ranges, None, &full), NextStep::Stuck { .. }));
    }

    #[test]
    fn merges_are_suggested_where_fewer_would_do() {
        assert_eq!(next_step(&even(4, 5), Some(4000), &LIMITS), NextStep::SuggestMerge { range_ids: [0, 1] });
        assert_eq!(next_step(&even(4, 5), Some(12_000), &LIMITS), NextStep::Nothing);
        assert_eq!(next_step(&even(4, 25), Some(4000), &LIMITS), NextStep::Nothing);
        assert_eq!(next_step(&even(1, 1), Some(400), &LIMITS), NextStep::Nothing);
    }

    proptest! {
        #[test]
        fn splitting_ends_and_leaves_nobody_over(count in 1usize..6, throughput in 0u64..300_000) {
            let mut ranges = even(count, 10);
            for _ in 0..60 {
                match next_step(&ranges, Some(throughput), &LIMITS) {
                    NextStep::Split { range_id, .. } => {
                        let place = ranges.iter().position(|range| range.range_id == range_id).expect("there");
                        let next_id = ranges.iter().map(|range| range.range_id).max().expect("there") + 1;
                        let half = RangeView { width: ranges[place].width / 2.0, range_id: next_id, ..ranges[place] };
                        ranges[place] = half;
                        ranges.insert(place + 1, RangeView { range_id: next_id + 1, ..half });
                    }
                    _ => break,
                }
            }
            prop_assert!(ranges.len() as u64 * 10_000 >= throughput);
            prop_assert_eq!(ranges.len(), count.max((throughput.div_ceil(10_000)) as usize));
        }
    }
}
