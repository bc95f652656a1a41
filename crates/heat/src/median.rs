//! The bound that halves a partition's load.
//!
//! Buckets show the load over the range, heavy keys its points: their certain weight is taken out
//! of their buckets, and the rest of a bucket counts as even. The bound lies before or after a
//! heavy key and never within one, since all of a logical key has one hash.

use shardlake_routing::{Epk, EpkScale, KeyRange};

use super::bucket_of;
use super::row::BUCKETS;

/// A heavy key's hash and weight.
pub(super) type Weight<'a> = (&'a Epk, u64);

/// The bound, and the share of the load below it; `None` without load, or without a bound inside the range.
pub(super) fn load_median(
    range: &KeyRange,
    scale: &EpkScale,
    buckets: &[u64; BUCKETS],
    keys: &[Weight<'_>],
) -> Option<(Epk, f64)> {
    let mut even = *buckets;
    let mut points: Vec<(f64, &Epk, u64)> = vec![];
    for (epk, weight) in keys {
        let fraction = scale.fraction(epk);
        let bucket = &mut even[bucket_of(fraction)];
        let weight = (*weight).min(*bucket);
        *bucket -= weight;
        points.push((fraction, epk, weight));
    }
    points.sort_by(|a, b| a.1.cmp(b.1));
    let total: f64 = buckets.iter().map(|part| *part as f64).sum();
    let is_inside =
        |bound: &Epk| *bound > range.min && !range.is_below(bound) && bound.0.first() != Some(&0xFF);
    let cuts = cuts(scale, &even, &points, total / 2.0);
    let inside = cuts.into_iter().filter(|(bound, below)| is_inside(bound) && *below > 0.0 && *below < total);
    let (bound, below) = inside.min_by(|(_, a), (_, b)| {
        let distance = |below: &f64| (below - total / 2.0).abs();
        distance(a).total_cmp(&distance(b))
    })?;
    Some((bound, below / total))
}

/// Where the sum over the range reaches the goal: one bound on even ground, two around a key. With the sum below each.
fn cuts(scale: &EpkScale, even: &[u64; BUCKETS], points: &[(f64, &Epk, u64)], goal: f64) -> Vec<(Epk, f64)> {
    let mut points = points.iter().peekable();
    let mut below = 0.0;
    for (index, rest) in even.iter().enumerate() {
        let bucket_end = (index + 1) as f64 / BUCKETS as f64;
        let density = *rest as f64 * BUCKETS as f64;
        let mut at = index as f64 / BUCKETS as f64;
        loop {
            let point = points.next_if(|point| bucket_of(point.0) == index);
            let end = point.map_or(bucket_end, |point| point.0.clamp(at, bucket_end));
            let ground = (end - at) * density;
            if ground > 0.0 && below + ground >= goal {
                return vec![(scale.bound(at + (goal - below) / density), goal)];
            }
            below += ground;
            at = end;
            let Some((_, epk, weight)) = point else { break };
            let weight = *weight as f64;
            if below + weight >= goal {
                let after = successor(epk).map(|after| (after, below + weight));
                return std::iter::once(((*epk).clone(), below)).chain(after).collect();
            }
            below += weight;
        }
    }
    vec![]
}

/// The lowest bound above a hash and below all others of its length; `None` past the last.
fn successor(epk: &Epk) -> Option<Epk> {
    let last = epk.0.iter().rposition(|byte| *byte < 0xFF)?;
    let mut bytes = epk.0[..=last].to_vec();
    bytes[last] += 1;
    Some(Epk(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardlake_model::PartitionKeyDefinition;

    fn median(buckets: &[u64; BUCKETS], keys: &[Weight<'_>]) -> Option<(Epk, f64)> {
        let range = KeyRange::full();
        let scale = EpkScale::new(&PartitionKeyDefinition::hash("/a"), &range);
        load_median(&range, &scale, buckets, keys)
    }

    fn epk(hex: &str) -> Epk {
        Epk::from_hex(hex).expect("hexadecimal")
    }

    #[test]
    fn even_load_is_halved_in_the_middle() {
        assert_eq!(median(&[7; BUCKETS], &[]), Some((epk("20"), 0.5)));
        assert_eq!(median(&[0; BUCKETS], &[]), None);
    }

    #[test]
    fn load_in_one_bucket_is_halved_inside_it() {
        let mut buckets = [0; BUCKETS];
        buckets[16] = 1000;
        assert_eq!(median(&buckets, &[]), Some((epk("21"), 0.5)));
    }

    #[test]
    fn a_heavy_key_goes_to_the_side_that_balances() {
        let mut buckets = [10; BUCKETS];
        let hot = epk("03000000000000000000000000000000");
        buckets[1] += 400;
        // 15 of the even load lie below the key: after the key is nearer to half.
        let (bound, share) = median(&buckets, &[(&hot, 400)]).expect("a bound");
        assert_eq!(bound, epk("03000000000000000000000000000001"));
        assert!((share - 415.0 / 720.0).abs() < 1e-9, "{share}");
        // At the upper end it stays above the bound.
        let (hot, mut buckets) = (epk("3E000000000000000000000000000000"), [10; BUCKETS]);
        buckets[31] += 400;
        let (bound, share) = median(&buckets, &[(&hot, 400)]).expect("a bound");
        assert_eq!((bound, share), (hot.clone(), 310.0 / 720.0));
    }

    #[test]
    fn one_key_alone_cannot_be_halved() {
        let hot = epk("1F000000000000000000000000000000");
        let mut buckets = [0; BUCKETS];
        buckets[15] = 500;
        assert_eq!(median(&buckets, &[(&hot, 500)]), None);
        // Two keys next to one another can.
        let next = epk("1F000000000000000000000000000001");
        assert_eq!(median(&buckets, &[(&hot, 250), (&next, 250)]), Some((next.clone(), 0.5)));
    }

    proptest! {
        #[test]
        fn both_sides_have_load_and_no_key_is_cut(
            buckets in prop::array::uniform32(0u64..1000),
            keys in prop::collection::vec((prop::array::uniform16(0u8..=0x3F), 1u64..3000), 0..20),
        ) {
            let scale = EpkScale::new(&PartitionKeyDefinition::hash("/a"), &KeyRange::full());
            let epks: Vec<(Epk, u64)> = keys.iter().map(|(bytes, weight)| (Epk(bytes.to_vec()), *weight)).collect();
            let mut buckets = buckets;
            for (epk, weight) in &epks {
                buckets[bucket_of(scale.fraction(epk))] += weight;
            }
            let weights: Vec<Weight<'_>> = epks.iter().map(|(epk, weight)| (epk, *weight)).collect();
            if let Some((bound, share)) = median(&buckets, &weights) {
                prop_assert!(0.0 < share && share < 1.0);
                prop_assert!(KeyRange::full().min < bound && bound.0[0] < 0x40);
                let heaviest = weights.iter().map(|key| key.1).max().unwrap_or(0) as f64;
                let total: u64 = buckets.iter().sum();
                // Off the middle by half of the heaviest key at most: either side of it is free to choose.
                prop_assert!((share - 0.5).abs() <= heaviest / total as f64 / 2.0 + 1e-6);
            }
        }
    }
}
