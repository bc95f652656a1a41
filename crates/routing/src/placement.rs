//! Placement of a new partition on a shard. Pure: the caller provides the load of the shards.

/// Data on one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardLoad {
    pub size_bytes: u64,
    pub partitions: u64,
}

/// The shard with the fewest bytes; among equals the one with the fewest partitions; among equals the lowest number.
/// `None` when there is no shard.
pub fn place(loads: &[ShardLoad]) -> Option<usize> {
    let emptiest = loads.iter().enumerate();
    emptiest
        .min_by_key(|(number, load)| (load.size_bytes, load.partitions, *number))
        .map(|(number, _)| number)
}

/// Shards for `count` partitions that will share one container's load: no shard gets its second before every shard has
/// one, and each round begins with the shard that [`place`] prefers. Empty when there is no shard.
pub fn place_together(loads: &[ShardLoad], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by_key(|number| (loads[*number].size_bytes, loads[*number].partitions, *number));
    debug_assert_eq!(order.first().copied(), place(loads), "the first goes where a single one would");
    order.into_iter().cycle().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(of: &[(u64, u64)]) -> Vec<ShardLoad> {
        of.iter()
            .map(|(size_bytes, partitions)| ShardLoad { size_bytes: *size_bytes, partitions: *partitions })
            .collect()
    }

    #[test]
    fn bytes_come_before_partitions_and_partitions_before_numbers() {
        assert_eq!(place(&loads(&[(10, 0), (9, 7), (9, 6)])), Some(2));
        assert_eq!(place(&loads(&[(5, 2), (5, 1), (5, 1)])), Some(1));
        assert_eq!(place(&loads(&[(0, 0), (0, 0)])), Some(0));
        assert_eq!(place(&[]), None);
    }

    #[test]
    fn partitions_of_one_container_spread_over_all_shards() {
        assert_eq!(place_together(&loads(&[(0, 0), (0, 0)]), 5), [0, 1, 0, 1, 0]);
        assert_eq!(place_together(&loads(&[(0, 1), (0, 0), (0, 0)]), 4), [1, 2, 0, 1]);
        // Even when one shard holds more than all of them ever will.
        assert_eq!(place_together(&loads(&[(1 << 40, 9), (3, 9), (0, 1)]), 5), [2, 1, 0, 2, 1]);
        assert_eq!(place_together(&loads(&[(7, 7)]), 3), [0, 0, 0]);
        assert!(place_together(&[], 3).is_empty());
    }

    #[test]
    fn the_first_of_several_goes_where_a_single_one_would() {
        for seed in 0..200u64 {
            let mixed =
                |n: u64| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(n as u32 * 7) >> 3) % 4;
            let loads = loads(&[0, 1, 2, 3].map(|n| (mixed(n), mixed(n + 5))));
            assert_eq!(place_together(&loads, 1).first().copied(), place(&loads), "{loads:?}");
        }
    }
}
