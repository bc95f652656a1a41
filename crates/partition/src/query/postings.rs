//! Postings of the index: the part of it that belongs to a leaf of an access plan, range by range.

use bytes::Bytes;
use shardlake_index::{path_hash, summary_hash};
use shardlake_model::{Error, Result};
use shardlake_sql::{IndexRef, Leaf};

use super::reader::Reader;
use crate::{index, keys};

/// Steps to find the start of a range.
pub(super) const STEPS_OF_SCAN: u64 = 100;

/// A posting: the part of its key behind the path, and that part's two halves.
pub(super) struct Posting {
    pub key: Bytes,
    pub ordinal: u64,
}

impl Posting {
    pub fn value(&self) -> &[u8] {
        &self.key[..self.key.len() - 8]
    }

    pub fn parse(key: &Bytes, common: usize) -> Result<Posting> {
        debug_assert!(key.len() >= common, "a posting has the prefix of its scan");
        let key = key.slice(common..);
        let ordinal = key.last_chunk::<8>().ok_or_else(crate::malformed_key)?;
        Ok(Posting { ordinal: u64::from_be_bytes(*ordinal), key })
    }
}

impl Reader<'_> {
    /// The common prefix of all postings of a leaf.
    pub fn prefix_of(&self, index: &IndexRef) -> Result<Vec<u8>> {
        let layout =
            self.layout.as_ref().ok_or_else(|| Error::internal("an index access without an index"))?;
        let path_hash = match index {
            IndexRef::Path(path) => path_hash(path),
            IndexRef::Composite(number) => layout.composite_hash(*number),
        };
        Ok(index::index_prefix(self.core.uid, layout.id, path_hash))
    }

    /// Whether items can have a summary of the array that a leaf is about.
    pub fn has_summaries(&self, leaf: &Leaf) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.summarises()) && summary_of(leaf).is_some()
    }

    /// Prefix of the summaries that stand for values under the path of a leaf. `None` where there are
    /// no such summaries.
    fn summaries_of(&self, leaf: &Leaf) -> Option<Vec<u8>> {
        let layout = self.layout.as_ref().filter(|layout| layout.summarises())?;
        Some(index::index_prefix(self.core.uid, layout.id, summary_of(leaf)?))
    }
}

/// Hash under which an item has its summary of the array that a leaf is about.
pub(crate) fn summary_of(leaf: &Leaf) -> Option<u64> {
    match &leaf.index {
        IndexRef::Path(path) => summary_hash(path),
        IndexRef::Composite(_) => None,
    }
}

/// A range of postings: one of a leaf, or the summaries behind those.
pub(super) struct Range {
    pub branch: usize,
    pub range: usize,
    pub prefix: Vec<u8>,
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    pub is_summary: bool,
}

impl Range {
    pub fn of(reader: &Reader<'_>, leaf: &Leaf, (branch, range): (usize, usize)) -> Result<Option<Range>> {
        if let Some(values) = leaf.ranges.get(range) {
            let prefix = reader.prefix_of(&leaf.index)?;
            let start = [&prefix[..], &values.start].concat();
            let end = [&prefix[..], &values.end].concat();
            return Ok(Some(Range { branch, range, prefix, start, end, is_summary: false }));
        }
        Ok(reader.summaries_of(leaf).map(|prefix| {
            let (start, end) = (prefix.clone(), keys::after_prefix(&prefix));
            Range { branch, range, prefix, start, end, is_summary: true }
        }))
    }
}
