//! Spans of the hash space, half open: `""` is the lowest bound, `"FF"` the highest.

use serde::{Deserialize, Serialize};
use shardlake_model::{KeyKind, PartitionKey, PartitionKeyDefinition};

use crate::epk::{Epk, binary_number, effective_partition_key, push_binary_number};

/// `[min, max)`.
///
/// Hashes of version 2 have a clear top bit, so `FF` is above them all. A bound may be shorter than the hashes it
/// separates; bytes beyond its end count as zero, so that `3F` and `3F00` are the same bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRange {
    pub min: Epk,
    pub max: Epk,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("'{0}' is not hexadecimal")]
    NotHexadecimal(String),
    #[error("the lower bound '{0}' is above the upper bound '{1}'")]
    Inverted(String, String),
}

impl KeyRange {
    pub fn full() -> KeyRange {
        KeyRange { min: Epk::default(), max: Epk(vec![0xFF]) }
    }

    pub fn from_hex(min: &str, max: &str) -> Result<KeyRange, RangeError> {
        let parse = |text: &str| {
            Epk::from_hex(text)
                .map(trimmed)
                .ok_or_else(|| RangeError::NotHexadecimal(text.chars().take(80).collect()))
        };
        let range = KeyRange { min: parse(min)?, max: parse(max)? };
        if range.min > range.max {
            return Err(RangeError::Inverted(min.chars().take(80).collect(), max.chars().take(80).collect()));
        }
        Ok(range)
    }

    pub fn to_hex(&self) -> (String, String) {
        (self.min.to_hex(), self.max.to_hex())
    }

    pub fn is_empty(&self) -> bool {
        self.min >= self.max
    }

    pub fn is_unbounded_above(&self) -> bool {
        self.max.0.first() == Some(&0xFF)
    }

    pub fn contains(&self, epk: &Epk) -> bool {
        self.min <= *epk && !self.is_below(epk)
    }

    pub fn contains_range(&self, other: &KeyRange) -> bool {
        self.min <= other.min
            && (self.is_unbounded_above() || (!other.is_unbounded_above() && other.max <= self.max))
    }

    /// Whether the whole span is below a hash.
    pub fn is_below(&self, epk: &Epk) -> bool {
        !self.is_unbounded_above() && self.max <= *epk
    }

    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.is_empty() && !other.is_empty() && self.min < other.max && other.min < self.max
    }

    pub fn intersection(&self, other: &KeyRange) -> KeyRange {
        KeyRange {
            min: self.min.clone().max(other.min.clone()),
            max: self.max.clone().min(other.max.clone()),
        }
    }
}

/// Without trailing zero bytes, which have no meaning in a bound.
pub(crate) fn trimmed(mut bound: Epk) -> Epk {
    while bound.0.last() == Some(&0) {
        bound.0.pop();
    }
    bound
}

/// All keys that start with a prefix of a hierarchical key; for a full key, that key alone.
pub fn prefix_range(definition: &PartitionKeyDefinition, key: &PartitionKey) -> KeyRange {
    let prefix = effective_partition_key(definition, key);
    if key.0.is_empty() {
        return KeyRange::full();
    }
    let mut max = prefix.clone();
    // Level hashes have clear top bits and version 1 markers are small: FF is above every continuation.
    max.0.push(0xFF);
    KeyRange { min: trimmed(prefix), max }
}

/// Cuts the part of the space that keys really use into `count` even spans; the outermost reach to the ends.
pub fn initial_ranges(definition: &PartitionKeyDefinition, count: usize) -> Vec<KeyRange> {
    assert!(count > 0, "a container has at least one partition");
    let bound = |index: usize| match index {
        0 => Epk::default(),
        index if index == count => Epk(vec![0xFF]),
        index => trimmed(inner_bound(definition, index as u128, count as u128)),
    };
    let ranges: Vec<KeyRange> =
        (0..count).map(|index| KeyRange { min: bound(index), max: bound(index + 1) }).collect();
    assert!(ranges.iter().all(|range| !range.is_empty()), "each first range can hold a key");
    ranges
}

fn inner_bound(definition: &PartitionKeyDefinition, index: u128, count: u128) -> Epk {
    if definition.kind == KeyKind::Hash && definition.version() == 1 {
        let mut bytes = Vec::new();
        push_binary_number(&mut bytes, (index * (1 << 32) / count) as f64);
        return Epk(bytes);
    }
    // 126 bits of hash, the first level's for a hierarchical key. Divided first: the product would not fit.
    let step = (1u128 << 126) / count;
    Epk((step * index).to_be_bytes().to_vec())
}

/// The middle of a range, in the part of the space that keys really use; `None` when no bound lies between its ends.
pub fn midpoint(definition: &PartitionKeyDefinition, range: &KeyRange) -> Option<Epk> {
    let middle = if definition.kind == KeyKind::Hash && definition.version() == 1 {
        let low = binary_number(&range.min.0).unwrap_or(0.0);
        let high = match range.is_unbounded_above() {
            true => (1u64 << 32) as f64,
            false => binary_number(&range.max.0)?,
        };
        let mut bytes = Vec::new();
        push_binary_number(&mut bytes, ((low + high) / 2.0).floor());
        bytes
    } else {
        // Hashes of a level have two clear bits: 40… is above them all.
        let high: &[u8] = if range.is_unbounded_above() { &[0x40] } else { &range.max.0 };
        mean(&range.min.0, high)
    };
    let middle = trimmed(Epk(middle));
    (range.min < middle && range.max > middle).then_some(middle)
}

/// A range's share of the space that keys really use.
pub fn width(definition: &PartitionKeyDefinition, range: &KeyRange) -> f64 {
    let is_v1 = definition.kind == KeyKind::Hash && definition.version() == 1;
    let place = |bound: &Epk| match is_v1 {
        true => binary_number(&bound.0).unwrap_or(0.0) / (1u64 << 32) as f64,
        false => bound.0.iter().rev().fold(0.0, |rest, byte| (rest + f64::from(*byte)) / 256.0) * 4.0,
    };
    let high = if range.is_unbounded_above() { 1.0 } else { place(&range.max) };
    (high - place(&range.min)).max(0.0)
}

/// The mean of two bounds as binary fractions, to one byte more than the longer has, and at least to the length of a hash.
fn mean(low: &[u8], high: &[u8]) -> Vec<u8> {
    let length = low.len().max(high.len()).max(15) + 1;
    let byte = |bytes: &[u8], place: usize| u16::from(bytes.get(place).copied().unwrap_or(0));
    let mut sum = vec![0u16; length];
    let mut carry = 0;
    for place in (0..length).rev() {
        let total = byte(low, place) + byte(high, place) + carry;
        sum[place] = total & 0xFF;
        carry = total >> 8;
    }
    let mut rest = carry;
    let halved = sum.iter().map(|digit| {
        let value = rest << 8 | digit;
        rest = value & 1;
        (value >> 1) as u8
    });
    halved.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::definitions;
    use proptest::prelude::*;
    use shardlake_model::KeyComponent;

    fn key_of(definition: &PartitionKeyDefinition, number: usize) -> PartitionKey {
        PartitionKey(
            definition.paths.iter().map(|path| KeyComponent::String(format!("{path}{number}"))).collect(),
        )
    }

    #[test]
    fn keys_spread_evenly_over_the_initial_ranges() {
        for definition in definitions() {
            let ranges = initial_ranges(&definition, 5);
            let mut counts = [0usize; 5];
            for number in 0..20_000 {
                let epk = effective_partition_key(&definition, &key_of(&definition, number));
                let owners: Vec<usize> = (0..5).filter(|index| ranges[*index].contains(&epk)).collect();
                assert_eq!(owners.len(), 1, "{definition:?}: exactly one range owns a key");
                counts[owners[0]] += 1;
            }
            assert!(counts.iter().all(|count| (3600..=4400).contains(count)), "{definition:?}: {counts:?}");
        }
    }

    #[test]
    fn prefixes_cover_exactly_their_keys() {
        let definition = PartitionKeyDefinition::multi_hash(&["/a", "/b"]);
        let full = key_of(&definition, 1);
        let other = key_of(&definition, 2);
        let range = prefix_range(&definition, &PartitionKey(full.0[..1].to_vec()));
        assert!(range.contains(&effective_partition_key(&definition, &full)));
        assert!(!range.contains(&effective_partition_key(&definition, &other)));
        let point = prefix_range(&definition, &full);
        assert!(point.contains(&effective_partition_key(&definition, &full)));
    }

    #[test]
    fn bounds_ignore_trailing_zeros_and_refuse_nonsense() {
        assert_eq!(
            KeyRange::from_hex("3F00", "3fff").expect("valid"),
            KeyRange::from_hex("3F", "3FFF").expect("valid")
        );
        assert!(KeyRange::from_hex("zz", "FF").is_err());
        assert!(KeyRange::from_hex("3F", "1F").is_err());
        assert!(KeyRange::from_hex("3", "FF").is_err());
    }

    #[test]
    fn widths_add_up_to_the_whole() {
        for definition in definitions() {
            for range in initial_ranges(&definition, 5) {
                assert!((width(&definition, &range) - 0.2).abs() < 1e-6, "{definition:?}");
            }
            assert!((width(&definition, &KeyRange::full()) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn halves_of_halves_hold_even_shares() {
        for definition in definitions() {
            let mut ranges = vec![KeyRange::full()];
            for _ in 0..3 {
                let halves = ranges.iter().flat_map(|range| {
                    let middle = midpoint(&definition, range).expect("wide enough");
                    let low = KeyRange { min: range.min.clone(), max: middle.clone() };
                    [low, KeyRange { min: middle, max: range.max.clone() }]
                });
                ranges = halves.collect();
            }
            let mut counts = [0usize; 8];
            for number in 0..16_000 {
                let epk = effective_partition_key(&definition, &key_of(&definition, number));
                counts[ranges.iter().position(|range| range.contains(&epk)).expect("covered")] += 1;
            }
            assert!(counts.iter().all(|count| (1700..=2300).contains(count)), "{definition:?}: {counts:?}");
        }
    }

    proptest! {
        #[test]
        fn a_midpoint_lies_inside_or_is_none(which in 0usize..3, bounds in prop::collection::vec(prop::collection::vec(0u8..=0x3F, 0..34), 2)) {
            let bound = |bytes: &Vec<u8>| match which {
                0 => { let mut number = Vec::new(); push_binary_number(&mut number, bytes.iter().fold(0f64, |sum, byte| (sum * 64.0 + f64::from(*byte)) % 4294967296.0)); number }
                _ => bytes.clone(),
            };
            let mut bounds: Vec<Epk> = bounds.iter().map(|bytes| trimmed(Epk(bound(bytes)))).collect();
            bounds.sort();
            let range = KeyRange { min: bounds[0].clone(), max: bounds[1].clone() };
            if let Some(middle) = midpoint(&definitions()[which], &range) {
                prop_assert!(range.min < middle && middle < range.max);
            } else {
                // Only bounds next to one another have nothing between them.
                prop_assert!(which == 0 || range.is_empty() || range.min >= range.max);
            }
        }

        #[test]
        fn any_count_covers_the_whole_space(count in 1usize..200, which in 0usize..3) {
            let ranges = initial_ranges(&definitions()[which], count);
            prop_assert_eq!(ranges.len(), count);
            prop_assert!(ranges[0].min.0.is_empty());
            prop_assert!(ranges[count - 1].is_unbounded_above());
            for pair in ranges.windows(2) {
                prop_assert_eq!(&pair[0].max, &pair[1].min);
                prop_assert!(!pair[0].is_empty());
            }
        }
    }
}
