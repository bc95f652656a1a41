//! Bloom filters over the keys that are looked up one by one.
//!
//! Most rows of an item are postings, which only scans read. A filter over them would take as many bytes as all others
//! together several times over, in the store and in the cache.

use std::sync::Arc;

use bytes::BufMut;
use slatedb::{BloomFilterPolicy, Filter, FilterBuilder, FilterPolicy, FilterQuery, FilterTarget, RowEntry};

/// About one in a hundred keys that are not there is looked for all the same.
const BITS_PER_KEY: u32 = 10;
/// Stored with every filter: another rule needs another name.
const NAME: &str = "shardlake looked-up keys 1";

/// Whether only scans read a key. The result for a key must not change for as long as the store
/// exists.
pub type IsScanned = fn(&[u8]) -> bool;

pub(super) struct LookedUp {
    bloom: BloomFilterPolicy,
    is_scanned: IsScanned,
}

pub(super) fn policies(is_scanned: IsScanned) -> Vec<Arc<dyn FilterPolicy>> {
    vec![Arc::new(LookedUp { bloom: BloomFilterPolicy::new(BITS_PER_KEY), is_scanned })]
}

impl FilterPolicy for LookedUp {
    fn name(&self) -> &str {
        NAME
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(Builder { bloom: self.bloom.builder(), is_scanned: self.is_scanned })
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        Arc::new(OfLookedUp { bloom: self.bloom.decode(data), is_scanned: self.is_scanned })
    }

    fn estimate_size(&self, keys: usize) -> usize {
        self.bloom.estimate_size(keys)
    }

    fn supports_prefix_queries(&self) -> bool {
        false
    }
}

struct Builder {
    bloom: Box<dyn FilterBuilder>,
    is_scanned: IsScanned,
}

impl FilterBuilder for Builder {
    fn add_entry(&mut self, entry: &RowEntry) {
        if !(self.is_scanned)(&entry.key) {
            self.bloom.add_entry(entry);
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        Arc::new(OfLookedUp { bloom: self.bloom.build(), is_scanned: self.is_scanned })
    }
}

struct OfLookedUp {
    bloom: Arc<dyn Filter>,
    is_scanned: IsScanned,
}

impl Filter for OfLookedUp {
    fn might_match(&self, query: &FilterQuery) -> bool {
        match &query.target {
            FilterTarget::Point(key) => (self.is_scanned)(key) || self.bloom.might_match(query),
            FilterTarget::Prefix(_) | FilterTarget::Range { .. } => true,
        }
    }

    fn encode(&self, writer: &mut dyn BufMut) {
        self.bloom.encode(writer);
    }

    fn size(&self) -> usize {
        self.bloom.size()
    }

    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(OfLookedUp { bloom: self.bloom.clamp_allocated_size(), is_scanned: self.is_scanned })
    }
}
