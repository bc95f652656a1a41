//! How a container's throughput is divided over its physical partitions.

/// Shares of `total` in the order of `weights`; they add up to `total` exactly.
///
/// A weight is the throughput that was set for the partition by hand. A partition without a weight
/// gets the mean weight of the others, so that without any by hand all are equal. When the total
/// changes later, the shares keep their proportions.
pub fn shares_of(total: u64, weights: &[Option<u64>]) -> Vec<u64> {
    let weights = whole_weights(weights);
    let all: u128 = weights.iter().sum();
    let mut passed = 0;
    let share = |own: &u128| {
        // The difference of two roundings of the running total, so that nothing is lost over all of them.
        let before = u128::from(total) * passed / all;
        passed += own;
        (u128::from(total) * passed / all - before) as u64
    };
    let shares: Vec<u64> = weights.iter().map(share).collect();
    debug_assert!(shares.is_empty() || shares.iter().sum::<u64>() == total, "shares add up to their total");
    shares
}

/// The shares of [`shares_of`] as parts of one.
pub fn fractions_of(weights: &[Option<u64>]) -> Vec<f64> {
    let weights = whole_weights(weights);
    let all: u128 = weights.iter().sum();
    let fractions: Vec<f64> = weights.iter().map(|weight| *weight as f64 / all as f64).collect();
    debug_assert!(
        fractions.is_empty() || (fractions.iter().sum::<f64>() - 1.0).abs() < 1e-6,
        "fractions add up to the whole"
    );
    fractions
}

/// With the mean of the weights that are given in the place of each that is not.
fn whole_weights(weights: &[Option<u64>]) -> Vec<u128> {
    let given: Vec<u128> = weights.iter().flatten().map(|weight| u128::from(*weight)).collect();
    let (sum, count) = (given.iter().sum::<u128>(), given.len() as u128);
    // Scaled by the number of given weights, which makes their mean a whole number.
    let whole = |weight: &Option<u64>| match weight {
        Some(weight) if sum > 0 => u128::from(*weight) * count,
        None if sum > 0 => sum,
        _ => 1,
    };
    weights.iter().map(whole).collect()
}
