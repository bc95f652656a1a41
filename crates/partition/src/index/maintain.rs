//! Keeps the index in step with the items, within the commit that writes them.
//!
//! Postings are added to the commit unread: planning never reads them. Counts of paths are known in
//! memory, as the newest queued commit leaves them.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_index::IndexLayout;
use shardlake_storage::{Batch, Op, Seq};

use super::keys::push_posting_key;
use crate::body_terms::IndexTerms;
use crate::item::StoredItem;
use crate::keys::PartitionUid;

/// Paths of which one partition counts the items.
pub(crate) const COUNTED_PATHS_MAX: usize = 64;

/// Indexes and counts that a partition's writes maintain.
#[derive(Debug, Default, Clone)]
pub(crate) struct Maintained {
    /// Every generation that exists: the serving one and the one being built.
    pub layouts: Vec<Arc<IndexLayout>>,
    pub counted: Vec<CountedPath>,
}

/// A path whose items are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CountedPath {
    pub index_id: u16,
    pub path_hash: u64,
    pub count: Count,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Count {
    /// As the newest queued commit leaves it; every commit that changes it stores it.
    Known(u64),
    /// The first count continues: changes of commits meanwhile, each with its place in the shard's
    /// order.
    Begun(Vec<(Seq, i64)>),
}

impl CountedPath {
    pub fn is(&self, index_id: u16, path_hash: u64) -> bool {
        (self.index_id, self.path_hash) == (index_id, path_hash)
    }

    /// The count after a change, where it is stored.
    pub fn after(&self, by: i64) -> Option<u64> {
        match &self.count {
            Count::Known(count) => Some(count.saturating_add_signed(by)),
            Count::Begun(_) => None,
        }
    }

    /// Notes the change of a queued commit.
    pub fn note(&mut self, seq: Seq, by: i64) {
        match &mut self.count {
            Count::Known(count) => *count = count.saturating_add_signed(by),
            Count::Begun(changes) => changes.push((seq, by)),
        }
    }
}

/// Changes of the index, of all versions that a transaction writes.
#[derive(Default)]
pub(crate) struct IndexChange {
    /// In the order of the writes.
    pub postings: PostingOps,
    /// By place in [`Maintained::counted`], each once.
    pub counts: Vec<(usize, i64)>,
}

impl IndexChange {
    fn count(&mut self, place: usize, by: i64) {
        match self.counts.iter_mut().find(|(known, _)| *known == place) {
            Some((_, sum)) => *sum += by,
            None => self.counts.push((place, by)),
        }
    }
}

/// Puts and deletes of postings, whose keys lie in one buffer: one allocation instead of one each.
#[derive(Default)]
pub(crate) struct PostingOps {
    /// Those before the ones in the buffer, ready for the batch.
    sealed: Vec<Op>,
    sealed_bytes: usize,
    keys: Vec<u8>,
    /// Where each key ends, and whether it is put.
    ends: Vec<(usize, bool)>,
}

impl PostingOps {
    pub fn put(&mut self, uid: PartitionUid, index_id: u16, term: &[u8], ordinal: u64) {
        push_posting_key(uid, index_id, term, ordinal, &mut self.keys);
        self.ends.push((self.keys.len(), true));
    }

    pub fn delete(&mut self, uid: PartitionUid, index_id: u16, term: &[u8], ordinal: u64) {
        push_posting_key(uid, index_id, term, ordinal, &mut self.keys);
        self.ends.push((self.keys.len(), false));
    }

    pub fn len(&self) -> usize {
        self.sealed.len() + self.ends.len()
    }

    /// Makes all of them ready for the batch, which takes a while where they are many.
    pub fn seal(&mut self) {
        let keys = Bytes::from(std::mem::take(&mut self.keys));
        self.sealed_bytes += keys.len();
        let mut start = 0;
        let op = |(end, is_put): (usize, bool)| {
            let key = keys.slice(start..end);
            start = end;
            if is_put { Op::Put { key, value: Bytes::new() } } else { Op::Delete { key } }
        };
        self.sealed.extend(std::mem::take(&mut self.ends).into_iter().map(op));
        debug_assert_eq!(start, keys.len(), "each byte is part of one key");
    }

    /// Forgets the last put or deletion, for tests.
    #[cfg(feature = "testing")]
    pub fn forget_one(&mut self, puts: bool) {
        let Some(place) = self.ends.iter().rposition(|(_, is_put)| *is_put == puts) else { return };
        let start = if place == 0 { 0 } else { self.ends[place - 1].0 };
        let length = self.ends.remove(place).0 - start;
        self.keys.drain(start..start + length);
        self.ends[place..].iter_mut().for_each(|(end, _)| *end -= length);
    }

    pub fn add_to(mut self, batch: &mut Batch) {
        self.seal();
        batch.append(self.sealed, self.sealed_bytes);
    }
}

impl Maintained {
    /// Notes the changes when `new` replaces `old`.
    pub fn change(
        &self,
        uid: PartitionUid,
        old: Option<&StoredItem>,
        new: Option<&StoredItem>,
        change: &mut IndexChange,
    ) {
        let ordinal = |item: Option<&StoredItem>| item.map_or(0, |item| item.envelope().ordinal);
        let (old_ordinal, new_ordinal) = (ordinal(old), ordinal(new));
        for layout in &self.layouts {
            let old_terms = old.map(|old| old.index_terms(layout)).unwrap_or_default();
            let new_terms = new.map(|new| new.index_terms(layout)).unwrap_or_default();
            let postings = &mut change.postings;
            if old_ordinal == new_ordinal {
                old_terms.difference(&new_terms, &mut |gone, term| match gone {
                    true => postings.delete(uid, layout.id, term, old_ordinal),
                    false => postings.put(uid, layout.id, term, new_ordinal),
                });
            } else {
                old_terms.iter().for_each(|term| postings.delete(uid, layout.id, term, old_ordinal));
                new_terms.iter().for_each(|term| postings.put(uid, layout.id, term, new_ordinal));
            }
            for (place, counted) in self.counted.iter().enumerate() {
                if counted.index_id == layout.id {
                    let has = |terms: &IndexTerms<'_>| i64::from(terms.has_value_under(counted.path_hash));
                    let by = has(&new_terms) - has(&old_terms);
                    if by != 0 {
                        change.count(place, by);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: PartitionUid = PartitionUid(3);

    #[test]
    fn postings_keep_their_order_through_seals() {
        let mut postings = PostingOps::default();
        let term = |number: u8| [&[0; 8][..], &[number]].concat();
        postings.put(UID, 1, &term(1), 7);
        postings.delete(UID, 1, &term(2), 8);
        postings.seal();
        postings.put(UID, 2, &term(3), 9);
        assert_eq!(postings.len(), 3);
        let mut batch = Batch::new();
        postings.add_to(&mut batch);
        let key =
            |index_id, number, ordinal| super::super::posting_key(UID, index_id, &term(number), ordinal);
        let expected = [key(1, 1, 7), key(1, 2, 8), key(2, 3, 9)];
        let found: Vec<&[u8]> = batch.iter().map(|op| &op.key()[..]).collect();
        assert_eq!(found, expected);
        let is_put: Vec<bool> = batch.iter().map(|op| matches!(op, Op::Put { .. })).collect();
        assert_eq!(is_put, [true, false, true]);
        assert_eq!(batch.size_bytes(), expected.iter().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn a_count_in_the_making_keeps_the_changes_since() {
        let mut counted = CountedPath { index_id: 1, path_hash: 5, count: Count::Begun(Vec::new()) };
        assert!(counted.is(1, 5) && !counted.is(2, 5) && !counted.is(1, 6));
        assert_eq!(counted.after(3), None, "it is not stored yet");
        counted.note(10, 2);
        counted.note(11, -1);
        assert_eq!(counted.count, Count::Begun(vec![(10, 2), (11, -1)]));
        counted.count = Count::Known(4);
        assert_eq!(counted.after(-3), Some(1));
        counted.note(12, -3);
        assert_eq!(counted.count, Count::Known(1));
        assert_eq!(counted.after(-3), Some(0), "a count that lacks items is not negative");
    }

    #[test]
    fn changes_of_one_path_are_one_change() {
        let mut change = IndexChange::default();
        [(0, 1), (2, 1), (0, 1), (2, -1)].into_iter().for_each(|(place, by)| change.count(place, by));
        assert_eq!(change.counts, [(0, 2), (2, 0)]);
    }
}
