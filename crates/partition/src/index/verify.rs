//! Comparison of a generation of the index with the terms of the items.
//!
//! Postings and the terms of the items are summed up as hashes in whatever order they come, so that
//! a partition of any size takes no memory; only when the sums differ are examples looked for, one
//! look-up each. While a generation is being built this holds for the items that the build has
//! dealt with; for the other items, existing postings must be right.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use shardlake_index::IndexLayout;
use shardlake_index::ItemTerms;
use shardlake_model::Result;
use shardlake_storage::{ScanOptions, Snapshot};
use xxhash_rust::xxh3::xxh3_128;

use super::keys::{self, BuildMarker, parse_posting, posting_key, range_of_ids};
use crate::item::StoredItem;
use crate::keys::{
    COUNTERS, HEADER, ITEMS, MARKERS, POSTINGS, PartitionUid, ordinal_key, space_range, with_header,
};
use crate::shape::ContainerSchema;

/// Postings named one by one where the index and the items differ.
const EXAMPLES_MAX: usize = 8;

/// Checks one generation of one partition.
pub(crate) struct IndexVerifier {
    uid: PartitionUid,
    layout: Arc<IndexLayout>,
    /// How far a build is; `None` for a generation that serves, which is whole.
    marker: Option<BuildMarker>,
    /// Ordinals of the items that a build has dealt with.
    dealt_with: FxHashSet<u64>,
    expected: Sum,
    counters: Vec<Counter>,
}

/// Order-independent: equal for equal sets of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    keys: u64,
    hashes: u128,
}

struct Counter {
    path_hash: u64,
    stored: u64,
    counted: u64,
}

/// Result of a check.
pub(crate) struct IndexFindings {
    pub postings: u64,
    pub problems: Vec<String>,
}

impl Sum {
    fn add(&mut self, key: &[u8]) {
        self.keys += 1;
        self.hashes = self.hashes.wrapping_add(xxh3_128(key));
    }
}

impl IndexVerifier {
    pub async fn new(
        snapshot: &Snapshot,
        uid: PartitionUid,
        layout: &Arc<IndexLayout>,
        is_building: bool,
    ) -> Result<IndexVerifier> {
        let mut counters = Vec::new();
        let (start, end) = range_of_ids(uid, COUNTERS, layout.id, layout.id + 1);
        let mut scan = snapshot.scan(start..end, ScanOptions::default());
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, value) in rows {
                let path_hash = *key.last_chunk().ok_or_else(crate::malformed_key)?;
                let (path_hash, stored) = (u64::from_be_bytes(path_hash), keys::decode_counter(&value)?);
                counters.push(Counter { path_hash, stored, counted: 0 });
            }
        }
        let marker = match is_building {
            true => {
                let (key, _) = range_of_ids(uid, MARKERS, layout.id, layout.id);
                let stored = snapshot.get(&key).await.map_err(crate::storage_error)?;
                Some(stored.as_deref().map_or(Ok(BuildMarker::default()), BuildMarker::decode)?)
            }
            false => None,
        };
        Ok(IndexVerifier {
            uid,
            layout: layout.clone(),
            marker,
            dealt_with: FxHashSet::default(),
            expected: Sum::default(),
            counters,
        })
    }

    /// Whether the index must have every term of the item under this key.
    fn is_due(&self, key: &[u8]) -> bool {
        match &self.marker {
            None => true,
            Some(marker) => marker.last.as_deref().is_some_and(|last| &key[HEADER..] <= last),
        }
    }

    pub fn note_item(&mut self, key: &[u8], item: &StoredItem) {
        let terms = ItemTerms::of(&item.view(), &self.layout);
        for counter in &mut self.counters {
            counter.counted += u64::from(terms.has_value_under(counter.path_hash));
        }
        if !self.is_due(key) {
            return;
        }
        let ordinal = item.envelope().ordinal;
        terms
            .iter()
            .for_each(|term| self.expected.add(&posting_key(self.uid, self.layout.id, term, ordinal)));
        if self.marker.is_some() {
            self.dealt_with.insert(ordinal);
        }
    }

    /// Reads the postings, after every item was noted.
    pub async fn finish(self, snapshot: &Snapshot, shape: &Arc<ContainerSchema>) -> Result<IndexFindings> {
        let id = self.layout.id;
        let mut findings = IndexFindings { postings: 0, problems: Vec::new() };
        let mut stored = Sum::default();
        let (start, end) = range_of_ids(self.uid, POSTINGS, id, id + 1);
        let mut scan = snapshot.scan(start..end, ScanOptions::default());
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, _) in rows {
                findings.postings += 1;
                let ordinal = parse_posting(&key).map(|(_, _, ordinal)| ordinal);
                if self.marker.is_none() || ordinal.is_some_and(|ordinal| self.dealt_with.contains(&ordinal))
                {
                    stored.add(&key);
                } else if findings.problems.len() < EXAMPLES_MAX
                    && let Some(problem) = self.contradiction(snapshot, shape, &key).await?
                {
                    findings.problems.push(problem);
                }
            }
        }
        if stored != self.expected {
            let (has, due) = (stored.keys, self.expected.keys);
            findings.problems.push(format!("index {id} has {has} postings where the items make {due}"));
            self.find_missing(snapshot, shape, &mut findings).await?;
            self.find_strays(snapshot, shape, &mut findings).await?;
        }
        for Counter { path_hash, stored, counted } in &self.counters {
            if stored != counted {
                findings.problems.push(format!(
                    "index {id} counts {stored} items with the path of hash {path_hash:016x}, there are {counted}"
                ));
            }
        }
        Ok(findings)
    }

    async fn find_missing(
        &self,
        snapshot: &Snapshot,
        shape: &Arc<ContainerSchema>,
        findings: &mut IndexFindings,
    ) -> Result<()> {
        let mut named = 0;
        let (start, end) = space_range(self.uid, ITEMS);
        let mut scan = snapshot.scan(start..end, ScanOptions::default());
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, value) in rows {
                if !self.is_due(&key) {
                    return Ok(());
                }
                // Damaged items were reported when they were walked.
                let Ok(item) = StoredItem::decode(value, shape) else { continue };
                let ordinal = item.envelope().ordinal;
                for term in ItemTerms::of(&item.view(), &self.layout).iter() {
                    let posting = posting_key(self.uid, self.layout.id, term, ordinal);
                    if snapshot.get(&posting).await.map_err(crate::storage_error)?.is_none() {
                        findings.problems.push(self.words("lacks", term, ordinal));
                        named += 1;
                    }
                    if named == EXAMPLES_MAX {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    async fn find_strays(
        &self,
        snapshot: &Snapshot,
        shape: &Arc<ContainerSchema>,
        findings: &mut IndexFindings,
    ) -> Result<()> {
        let mut named = 0;
        let (start, end) = range_of_ids(self.uid, POSTINGS, self.layout.id, self.layout.id + 1);
        let mut scan = snapshot.scan(start..end, ScanOptions::default());
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, _) in rows {
                if let Some(problem) = self.contradiction(snapshot, shape, &key).await? {
                    findings.problems.push(problem);
                    named += 1;
                }
                if named == EXAMPLES_MAX {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The problem with a posting, if its item contradicts it.
    async fn contradiction(
        &self,
        snapshot: &Snapshot,
        shape: &Arc<ContainerSchema>,
        key: &[u8],
    ) -> Result<Option<String>> {
        let id = self.layout.id;
        let Some((_, term, ordinal)) = parse_posting(key) else {
            return Ok(Some(format!("index {id} has the malformed posting {key:02x?}")));
        };
        let owner = snapshot.get(&ordinal_key(self.uid, ordinal)).await.map_err(crate::storage_error)?;
        let stored = match owner {
            Some(owner) => snapshot.get(&with_header(self.uid, ITEMS, &owner)).await,
            None => Ok(None),
        };
        let item = stored.map_err(crate::storage_error)?.map(|value| StoredItem::decode(value, shape));
        let is_right = match &item {
            Some(Ok(item)) => ItemTerms::of(&item.view(), &self.layout).contains(term),
            _ => false,
        };
        Ok((!is_right).then(|| self.words("has a wrong", term, ordinal)))
    }

    fn words(&self, what: &str, term: &[u8], ordinal: u64) -> String {
        let (path, value) = term.split_at(term.len().min(8));
        let value = match shardlake_document::decode_index_value(value) {
            Some(value) => format!("{value:?}"),
            None => format!("{value:02x?}"),
        };
        let path: String = path.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "index {} {what} posting of item {ordinal:#x}: path of hash {path}, value {value}",
            self.layout.id
        )
    }
}
