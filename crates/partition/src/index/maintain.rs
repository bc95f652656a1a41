//! Keeps the index in step with the items, within the commit that writes them.
//!
//! Postings are added to the commit unread: planning never reads them. Counts of paths are known in
//! memory, as the newest queued commit leaves them.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_index::IndexLayout;
use shardlake_storage::{Batch, Op, Seq};

use super::body_terms::IndexTerms;
use super::keys::push_posting_key;
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
