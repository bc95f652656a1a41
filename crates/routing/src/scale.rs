//! A range as a scale of numbers: the position of a hash between its bounds, and the bound at a position.
//!
//! Only the part of the space that keys really use is on the scale: hashes of version 2 end below 40…, those of version 1
//! are 32-bit numbers in a coding that is not even. Places are 64-bit numbers after the bytes that all hashes of the range
//! begin with, so that narrow ranges are as finely divided as wide ones.

use shardlake_model::{KeyKind, PartitionKeyDefinition};

use crate::epk::{Epk, binary_number, push_binary_number};
use crate::range::{KeyRange, trimmed};

#[derive(Debug, Clone, PartialEq)]
pub struct EpkScale {
    coding: Coding,
    low: u64,
    /// At least `low`.
    high: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Coding {
    /// Version 1: the place is the hash number.
    Number,
    /// Everything else: the place is the eight bytes after the prefix.
    Bytes { prefix: Vec<u8> },
}

impl EpkScale {
    pub fn new(definition: &PartitionKeyDefinition, range: &KeyRange) -> EpkScale {
        if definition.kind == KeyKind::Hash && definition.version() == 1 {
            let low = binary_number(&range.min.0).unwrap_or(0.0) as u64;
            let high = match range.is_unbounded_above() {
                true => 1 << 32,
                false => binary_number(&range.max.0).unwrap_or(0.0) as u64,
            };
            return EpkScale { coding: Coding::Number, low, high: high.max(low) };
        }
        let max: &[u8] = if range.is_unbounded_above() { &[0x40] } else { &range.max.0 };
        let longest = range.min.0.len().max(max.len());
        let is_common = |place: &usize| byte(&range.min.0, *place) == byte(max, *place);
        let common = (0..longest).take_while(is_common).count();
        let prefix: Vec<u8> = (0..common).map(|place| byte(max, place)).collect();
        let (low, high) = (number_at(&range.min.0, common), number_at(max, common));
        EpkScale { coding: Coding::Bytes { prefix }, low, high: high.max(low) }
    }

    /// Position of a hash in the range, 0 to 1. Hashes outside of the range count as its ends.
    pub fn fraction(&self, epk: &Epk) -> f64 {
        let width = self.high - self.low;
        if width == 0 {
            return 0.0;
        }
        let place = self.place(epk).clamp(self.low, self.high);
        (place - self.low) as f64 / width as f64
    }

    /// The bound at a fraction of the range, without trailing zeros.
    pub fn bound(&self, fraction: f64) -> Epk {
        let width = (self.high - self.low) as f64;
        let place = self.low.saturating_add((width * fraction.clamp(0.0, 1.0)) as u64).min(self.high);
        match &self.coding {
            Coding::Number => {
                let mut bytes = Vec::new();
                push_binary_number(&mut bytes, place as f64);
                trimmed(Epk(bytes))
            }
            Coding::Bytes { prefix } => trimmed(Epk([&prefix[..], &place.to_be_bytes()].concat())),
        }
    }

    fn place(&self, epk: &Epk) -> u64 {
        match &self.coding {
            Coding::Number => binary_number(&epk.0).unwrap_or(0.0) as u64,
            // Comparing empty prefixes is not free: it takes longer than all the rest on some processors.
            Coding::Bytes { prefix } if prefix.is_empty() => number_at(&epk.0, 0),
            Coding::Bytes { prefix } => {
                let start = &epk.0[..prefix.len().min(epk.0.len())];
                match start.cmp(prefix) {
                    std::cmp::Ordering::Equal => number_at(&epk.0, prefix.len()),
                    std::cmp::Ordering::Less => self.low,
                    std::cmp::Ordering::Greater => self.high,
                }
            }
        }
    }
}

/// Bytes beyond the end of a hash count as zero.
fn byte(bytes: &[u8], place: usize) -> u8 {
    bytes.get(place).copied().unwrap_or(0)
}

fn number_at(bytes: &[u8], start: usize) -> u64 {
    let rest = bytes.get(start..).unwrap_or(&[]);
    if let Some(eight) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    let mut eight = [0; 8];
    eight[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::definitions;
    use crate::{effective_partition_key, initial_ranges, midpoint};
    use proptest::prelude::*;
    use shardlake_model::{KeyComponent, PartitionKey};

    fn epk_of(definition: &PartitionKeyDefinition, number: u32) -> Epk {
        let component = |path: &String| KeyComponent::String(format!("{path}{number}"));
        effective_partition_key(definition, &PartitionKey(definition.paths.iter().map(component).collect()))
    }

    #[test]
    fn keys_lie_evenly_on_the_scale_of_any_range() {
        for definition in definitions() {
            let mut ranges = initial_ranges(&definition, 3);
            ranges.push(KeyRange::full());
            for range in ranges {
                let scale = EpkScale::new(&definition, &range);
                let mut counts = [0u32; 8];
                let keys = (0..24_000).map(|number| epk_of(&definition, number));
                for epk in keys.filter(|epk| range.contains(epk)) {
                    counts[((scale.fraction(&epk) * 8.0) as usize).min(7)] += 1;
                }
                let mean = counts.iter().sum::<u32>() / 8;
                assert!(
                    counts.iter().all(|count| count.abs_diff(mean) < mean / 5),
                    "{definition:?} {range:?}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn the_middle_of_the_scale_is_the_midpoint() {
        for definition in definitions() {
            let mut range = KeyRange::full();
            for turn in 0..6 {
                let scale = EpkScale::new(&definition, &range);
                let middle = midpoint(&definition, &range).expect("wide enough");
                assert!((scale.fraction(&middle) - 0.5).abs() < 1e-9, "{definition:?} {range:?} {middle:?}");
                assert!((scale.fraction(&scale.bound(0.5)) - 0.5).abs() < 1e-9);
                match turn % 2 {
                    0 => range.max = middle,
                    _ => range.min = middle,
                }
            }
        }
    }

    proptest! {
        #[test]
        fn fractions_keep_the_order_of_hashes(which in 0usize..3, a in 0u32..100_000, b in 0u32..100_000) {
            let definition = &definitions()[which];
            let scale = EpkScale::new(definition, &KeyRange::full());
            let (low, high) = (epk_of(definition, a), epk_of(definition, b));
            let (low, high) = if low <= high { (low, high) } else { (high, low) };
            prop_assert!(scale.fraction(&low) <= scale.fraction(&high));
            prop_assert!((0.0..=1.0).contains(&scale.fraction(&low)));
        }

        #[test]
        fn any_bytes_lie_between_0_and_1(which in 0usize..3, bounds in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 3), at in 0f64..1.0) {
            let mut bounds: Vec<Epk> = bounds.into_iter().map(Epk).collect();
            let epk = bounds.pop().expect("three");
            bounds.sort();
            let range = KeyRange { min: bounds[0].clone(), max: bounds[1].clone() };
            let scale = EpkScale::new(&definitions()[which], &range);
            prop_assert!((0.0..=1.0).contains(&scale.fraction(&epk)));
            scale.bound(at);
        }
    }
}
