//! A set of item ordinals: one bit each, in blocks, since a partition hands them out one after the other.

use rustc_hash::FxHashMap;

const BLOCK_WORDS: usize = 1024;
const BLOCK_BITS: u64 = BLOCK_WORDS as u64 * 64;

#[derive(Debug, Default)]
pub(super) struct OrdinalSet(FxHashMap<u64, Box<[u64; BLOCK_WORDS]>>);

impl OrdinalSet {
    pub fn insert(&mut self, ordinal: u64) {
        let block = self.0.entry(ordinal / BLOCK_BITS).or_insert_with(|| Box::new([0; BLOCK_WORDS]));
        let bit = (ordinal % BLOCK_BITS) as usize;
        block[bit / 64] |= 1 << (bit % 64);
    }

    pub fn contains(&self, ordinal: u64) -> bool {
        let bit = (ordinal % BLOCK_BITS) as usize;
        self.0.get(&(ordinal / BLOCK_BITS)).is_some_and(|block| block[bit / 64] >> (bit % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_was_put_in(ordinals in prop::collection::hash_set(any::<u64>(), 0..200), other in any::<u64>()) {
            let mut set = OrdinalSet::default();
            ordinals.iter().for_each(|ordinal| set.insert(*ordinal));
            prop_assert!(ordinals.iter().all(|ordinal| set.contains(*ordinal)));
            prop_assert_eq!(set.contains(other), ordinals.contains(&other));
            prop_assert_eq!(set.contains(other ^ 1), ordinals.contains(&(other ^ 1)));
        }
    }
}
