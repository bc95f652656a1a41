//! The layout of postings and counters.
//!
//! ```text
//! partition u32 | X | index id u16 | path hash u64 | index value | item ordinal u64 → nothing
//! partition u32 | C | index id u16 | path hash u64                                  → items u64
//! partition u32 | M | index id u16                                                  → how far the build is: items u64 | last item key
//! ```
//! The summary of an array (`shardlake-index`, `terms.rs`) is a posting under a hash of its own, with
//! the value null.
//! Numbers are big-endian. The index id numbers a generation of a container's whole index. A path is known by its hash alone,
//! so that documents with endless different property names cost no memory: two paths of one container collide with a
//! probability of about (number of paths)² / 2^65.

use shardlake_model::Result;

use crate::keys::{COUNTERS, HEADER, MARKERS, POSTINGS, PartitionUid, header};

/// The common prefix of all postings of a path.
pub fn index_prefix(uid: PartitionUid, index_id: u16, path_hash: u64) -> Vec<u8> {
    let mut key = header(uid, POSTINGS, 32);
    key.extend_from_slice(&index_id.to_be_bytes());
    key.extend_from_slice(&path_hash.to_be_bytes());
    key
}

/// Appends the key of a posting; `term` is path hash and index value.
pub(crate) fn push_posting_key(
    uid: PartitionUid,
    index_id: u16,
    term: &[u8],
    ordinal: u64,
    key: &mut Vec<u8>,
) {
    key.extend_from_slice(&uid.0.to_be_bytes());
    key.push(POSTINGS);
    key.extend_from_slice(&index_id.to_be_bytes());
    debug_assert!(term.len() > size_of::<u64>(), "a term is a hash of a path, and a value");
    key.extend_from_slice(term);
    key.extend_from_slice(&ordinal.to_be_bytes());
}

pub(crate) fn posting_key(uid: PartitionUid, index_id: u16, term: &[u8], ordinal: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(HEADER + 2 + term.len() + 8);
    push_posting_key(uid, index_id, term, ordinal, &mut key);
    key
}

/// Where a partition keeps how many of its items have a value under a path.
pub fn counter_key(uid: PartitionUid, index_id: u16, path_hash: u64) -> Vec<u8> {
    let mut key = header(uid, COUNTERS, 10);
    key.extend_from_slice(&index_id.to_be_bytes());
    key.extend_from_slice(&path_hash.to_be_bytes());
    key
}

pub fn decode_counter(bytes: &[u8]) -> Result<u64> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| crate::malformed_key())
}

pub(crate) fn marker_key(uid: PartitionUid, index_id: u16) -> Vec<u8> {
    let mut key = header(uid, MARKERS, 2);
    key.extend_from_slice(&index_id.to_be_bytes());
    key
}

/// How far the build of a generation has come; stays when it is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BuildMarker {
    pub items: u64,
    /// Key of the last item dealt with, without its header.
    pub last: Option<Vec<u8>>,
}

impl BuildMarker {
    pub fn encode(&self) -> Vec<u8> {
        [&self.items.to_be_bytes()[..], self.last.as_deref().unwrap_or_default()].concat()
    }

    pub fn decode(bytes: &[u8]) -> Result<BuildMarker> {
        let (items, last) = bytes.split_first_chunk().ok_or_else(crate::malformed_key)?;
        let last = (!last.is_empty()).then(|| last.to_vec());
        Ok(BuildMarker { items: u64::from_be_bytes(*items), last })
    }
}

/// First and last-exclusive key of the generations from one id to before another, in any space that leads with the id.
pub(crate) fn range_of_ids(uid: PartitionUid, space: u8, first: u16, end: u16) -> (Vec<u8>, Vec<u8>) {
    let key = |id: u16| [&header(uid, space, 2)[..], &id.to_be_bytes()].concat();
    (key(first), key(end))
}
/// The content of a posting's key, without its partition: generation, term and ordinal.
pub(crate) fn parse_posting(key: &[u8]) -> Option<(u16, &[u8], u64)> {
    let (id, rest) = key.get(HEADER..)?.split_first_chunk()?;
    let (term, ordinal) = rest.split_last_chunk()?;
    Some((u16::from_be_bytes(*id), term, u64::from_be_bytes(*ordinal)))
}
