//! Keeps the index in step with the items, within the commit that writes them.
//!
//! Postings go straight into the commit: nobody reads them while planning. Counters of paths are read and written through the
//! transaction's view, so that queued commits build on one another.

use std::sync::Arc;

use shardlake_storage::Op;

use super::keys::posting_key;
use super::layout::IndexLayout;
use super::terms::ItemTerms;
use crate::item::StoredItem;
use crate::keys::PartitionUid;

/// Paths of which one partition counts the items.
pub(crate) const COUNTED_PATHS_MAX: usize = 64;

/// What a partition's writes keep up to date.
#[derive(Debug, Default)]
pub(crate) struct Maintained {
    /// Every generation that exists: the serving one and the one being built.
    pub layouts: Vec<Arc<IndexLayout>>,
    pub counted: Vec<CountedPath>,
}

/// A path whose items are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedPath {
    pub index_id: u16,
    pub path_hash: u64,
    /// Until the first count is done: what commits have changed meanwhile. Afterwards the stored counter is kept up to date.
    pub pending: Option<i64>,
}

/// Changes of the index for one version of an item in place of another.
pub(crate) struct IndexChange {
    pub ops: Vec<Op>,
    /// By place in [`Maintained::counted`].
    pub counts: Vec<(usize, i64)>,
}

impl Maintained {
    pub fn change(
        &self,
        uid: PartitionUid,
        old: Option<&StoredItem>,
        new: Option<&StoredItem>,
    ) -> IndexChange {
        let mut change = IndexChange { ops: Vec::new(), counts: Vec::new() };
        for layout in &self.layouts {
            let terms = |item: Option<&StoredItem>| {
                item.map(|item| ItemTerms::of(&item.view(), layout)).unwrap_or_default()
            };
            let (old_terms, new_terms) = (terms(old), terms(new));
            let ordinal = |item: Option<&StoredItem>| item.map_or(0, |item| item.envelope().ordinal);
            let (old_ordinal, new_ordinal) = (ordinal(old), ordinal(new));
            let delete =
                |term: &[u8]| Op::Delete { key: posting_key(uid, layout.id, term, old_ordinal).into() };
            let put = |term: &[u8]| Op::Put {
                key: posting_key(uid, layout.id, term, new_ordinal).into(),
                value: bytes::Bytes::new(),
            };
            if old_ordinal == new_ordinal {
                old_terms.difference(&new_terms, &mut |gone, term| {
                    change.ops.push(if gone { delete(term) } else { put(term) })
                });
            } else {
                change.ops.extend(old_terms.iter().map(delete));
                change.ops.extend(new_terms.iter().map(put));
            }
            for (place, counted) in self.counted.iter().enumerate() {
                if counted.index_id == layout.id {
                    let has = |terms: &ItemTerms| i64::from(terms.has_value_under(counted.path_hash));
                    let by = has(&new_terms) - has(&old_terms);
                    if by != 0 {
                        change.counts.push((place, by));
                    }
                }
            }
        }
        change
    }
}
