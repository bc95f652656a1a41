//! Which partition owns which part of the hash space.

use crate::epk::Epk;
use crate::range::KeyRange;

/// A gap-free cover of the hash space, one value per range, in order.
#[derive(Debug, Clone)]
pub struct PartitionMap<T> {
    generation: u64,
    ranges: Vec<KeyRange>,
    values: Vec<T>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ranges do not cover the hash space exactly once: {0}")]
pub struct MapError(String);

impl<T> PartitionMap<T> {
    /// `generation` increases whenever a container's ranges change.
    pub fn new(generation: u64, mut partitions: Vec<(KeyRange, T)>) -> Result<Self, MapError> {
        partitions.sort_by(|a, b| a.0.min.cmp(&b.0.min));
        let (ranges, values): (Vec<KeyRange>, Vec<T>) = partitions.into_iter().unzip();
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return Err(MapError("there is none".into()));
        };
        if !first.min.0.is_empty() || !last.is_unbounded_above() {
            return Err(MapError(format!("they reach from '{:?}' to '{:?}'", first.min, last.max)));
        }
        for pair in ranges.windows(2) {
            if pair[0].max != pair[1].min {
                return Err(MapError(format!(
                    "one ends at '{:?}', the next starts at '{:?}'",
                    pair[0].max, pair[1].min
                )));
            }
        }
        assert_eq!(ranges.len(), values.len(), "each range has its partition");
        Ok(PartitionMap { generation, ranges, values })
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The owner of a hash.
    pub fn lookup(&self, epk: &Epk) -> &T {
        // The first range begins below everything; comparing with its empty bound would cost more than all the rest.
        let later = &self.ranges[1..];
        let at = later.partition_point(|range| range.min <= *epk);
        debug_assert!(self.ranges[at].contains(epk), "the ranges cover each key");
        &self.values[at]
    }

    pub fn overlapping<'a>(&'a self, span: &'a KeyRange) -> impl Iterator<Item = &'a T> {
        let pairs = self.ranges.iter().zip(&self.values);
        pairs.filter(|(range, _)| range.overlaps(span)).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.values.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::initial_ranges;
    use proptest::prelude::*;
    use shardlake_model::PartitionKeyDefinition;

    proptest! {
        #[test]
        fn lookup_agrees_with_a_linear_search(count in 1usize..40, epk in prop::collection::vec(0u8..=0x3F, 1..17)) {
            let ranges = initial_ranges(&PartitionKeyDefinition::hash("/a"), count);
            let map = PartitionMap::new(1, ranges.iter().cloned().enumerate().map(|(i, r)| (r, i)).collect()).expect("a cover");
            let epk = Epk(epk);
            let linear = ranges.iter().position(|range| range.contains(&epk)).expect("covered");
            prop_assert_eq!(*map.lookup(&epk), linear);
        }
    }

    #[test]
    fn gaps_and_overlaps_are_refused() {
        let range = |min, max| KeyRange::from_hex(min, max).expect("valid");
        assert!(PartitionMap::new(1, vec![(range("", "20"), 0), (range("20", "FF"), 1)]).is_ok());
        assert!(PartitionMap::new(1, vec![(range("", "20"), 0), (range("21", "FF"), 1)]).is_err());
        assert!(PartitionMap::new(1, vec![(range("", "22"), 0), (range("21", "FF"), 1)]).is_err());
        assert!(PartitionMap::new(1, vec![(range("01", "FF"), 0)]).is_err());
        assert!(PartitionMap::<u8>::new(1, vec![]).is_err());
    }
}
