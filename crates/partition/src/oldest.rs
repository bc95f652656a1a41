//! The oldest items of a logical partition with bounds, at hand for the plans that remove them.
//!
//! A plan waits for nothing, so it cannot look for the oldest items by itself. The sequencer keeps their ordinals, which are the
//! order of creation, from the first plan on that asks for them:
//!
//! ```text
//! known  ascending, read from the engine   gap  not read yet   newer  ascending, created since
//! ```
//!
//! Every item of the logical partition is in `known`, in `newer`, or has an ordinal in the gap. A plan that has used up `known`
//! while there is a gap stops; its caller reads the beginning of the gap (`commit.rs`) and plans anew. Both lists
//! are bounded: a small logical partition is in memory as a whole, of a large one a part is read now and then.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

/// Items of each list.
pub(crate) const LIST_MAX: usize = 1024;

/// An item by its place in the order of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub ordinal: u64,
    /// With its header.
    pub key: Bytes,
}

#[derive(Debug)]
pub(crate) struct Oldest {
    /// Key prefix of the logical partition.
    prefix: Vec<u8>,
    known: VecDeque<Placed>,
    gap: Range<u64>,
    newer: VecDeque<Placed>,
}

impl Oldest {
    /// Nothing is known of items with ordinals below this one.
    pub fn new(prefix: Vec<u8>, next_ordinal: u64) -> Oldest {
        Oldest { prefix, known: VecDeque::new(), gap: 0..next_ordinal, newer: VecDeque::new() }
    }

    pub fn is_of(&self, prefix: &[u8]) -> bool {
        self.prefix == prefix
    }

    /// The oldest items, up to the gap, and whether there is one.
    pub fn items(&self) -> (impl Iterator<Item = &Placed>, bool) {
        let has_gap = !self.gap.is_empty();
        let newer = self.newer.iter().filter(move |_| !has_gap);
        (self.known.iter().chain(newer), has_gap)
    }

    /// A commit has removed an item.
    pub fn note_removed(&mut self, ordinal: u64) {
        [&mut self.known, &mut self.newer].into_iter().for_each(|list| remove(list, ordinal));
    }

    /// A commit has created an item.
    pub fn note_created(&mut self, placed: Placed) {
        let Placed { ordinal, ref key } = placed;
        for list in [&mut self.known, &mut self.newer] {
            if let Ok(place) = list.binary_search_by_key(&ordinal, |placed| placed.ordinal) {
                // It was given another id, which leaves it its ordinal.
                list[place] = placed;
                return;
            }
        }
        let is_new = ordinal >= self.gap.end && self.newer.back().is_none_or(|last| last.ordinal < ordinal);
        if !is_new || !key.starts_with(&self.prefix) {
            return;
        }
        self.newer.push_back(placed);
        if self.newer.len() > LIST_MAX {
            if self.gap.is_empty() {
                self.gap.start = self.newer.front().map_or(ordinal, |first| first.ordinal);
            }
            self.newer.clear();
            self.gap.end = ordinal + 1;
        }
    }

    /// The ordinals of items that are not known.
    pub fn gap(&self) -> Range<u64> {
        self.gap.clone()
    }

    /// All items of the gap below an ordinal were found, unless others have found them before.
    pub fn fill(&mut self, gap: &Range<u64>, found: Vec<Placed>, read_to: u64) {
        if self.gap.start == gap.start && self.gap.end >= read_to {
            debug_assert!(
                self.known.iter().chain(&found).is_sorted_by(|one, next| one.ordinal < next.ordinal),
                "items are known in the order of creation"
            );
            self.known.extend(found);
            self.gap.start = read_to;
        }
    }
}

fn remove(list: &mut VecDeque<Placed>, ordinal: u64) {
    if let Ok(place) = list.binary_search_by_key(&ordinal, |placed| placed.ordinal) {
        list.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placed(ordinal: u64) -> Placed {
        Placed { ordinal, key: Bytes::from(format!("p{ordinal}")) }
    }

    fn ordinals(oldest: &Oldest) -> Vec<u64> {
        oldest.items().0.map(|placed| placed.ordinal).collect()
    }

    #[test]
    fn new_items_come_last_and_removed_ones_go() {
        let mut oldest = Oldest::new(b"p".to_vec(), 5);
        [5, 6].into_iter().for_each(|ordinal| oldest.note_created(placed(ordinal)));
        assert_eq!((ordinals(&oldest), oldest.items().1), (vec![], true), "the gap comes first");
        let gap = oldest.gap();
        oldest.fill(&gap, vec![placed(3)], 4);
        assert_eq!((ordinals(&oldest), oldest.items().1), (vec![3], true), "a part of it is known");
        oldest.fill(&gap, vec![placed(3), placed(4)], 5);
        assert_eq!(ordinals(&oldest), vec![3], "it was filled from elsewhere meanwhile");
        let gap = oldest.gap();
        oldest.fill(&gap, vec![], 5);
        assert_eq!((ordinals(&oldest), oldest.items().1), (vec![3, 5, 6], false));
        [3, 6, 9].into_iter().for_each(|ordinal| oldest.note_removed(ordinal));
        oldest.note_created(placed(7));
        oldest.note_created(Placed { ordinal: 8, key: Bytes::from_static(b"of another logical partition") });
        assert_eq!(ordinals(&oldest), vec![5, 7]);
    }

    #[test]
    fn more_new_items_than_are_kept_become_a_gap() {
        let mut oldest = Oldest::new(b"p".to_vec(), 0);
        for ordinal in 0..=LIST_MAX as u64 {
            oldest.note_created(placed(ordinal));
        }
        assert_eq!(oldest.gap(), 0..LIST_MAX as u64 + 1);
        assert!(oldest.newer.is_empty());
    }

    proptest! {
        /// Creations, removals and looks at the gap, against a list of all items.
        #[test]
        fn nothing_is_known_that_is_not_there(
            existing in prop::collection::btree_set(0..40u64, 0..20),
            acts in prop::collection::vec((0..3u8, any::<prop::sample::Index>(), 1..5usize), 0..60),
        ) {
            let mut all: Vec<u64> = existing.into_iter().collect();
            let (mut oldest, mut next) = (Oldest::new(b"p".to_vec(), 40), 40);
            for (kind, index, count) in acts {
                match kind {
                    0 => {
                        oldest.note_created(placed(next));
                        all.push(next);
                        next += 1;
                    }
                    1 if !all.is_empty() => {
                        oldest.note_removed(all.remove(index.index(all.len())));
                    }
                    _ => {
                        let gap = oldest.gap();
                        let inside = all.iter().copied().filter(|ordinal| gap.contains(ordinal));
                        let found: Vec<u64> = inside.take(count).collect();
                        let is_all = found.len() < count;
                        let read_to = if is_all { gap.end } else { found[count - 1] + 1 };
                        oldest.fill(&gap, found.into_iter().map(placed).collect(), read_to);
                    }
                }
                let known = ordinals(&oldest);
                // The known ones are the first of all, and all of them where there is no gap.
                prop_assert_eq!(&known[..], &all[..known.len()]);
                let has_gap = oldest.items().1;
                prop_assert!(has_gap || known.len() == all.len(), "{:?} of {:?}", known, all);
            }
        }
    }
}
