//! Hashes of paths, by which the index knows them.
//!
//! Documents with any number of different property names therefore cost no memory. Two paths of one container
//! collide with a probability of about (number of paths)² / 2^65.

use shardlake_model::IndexPathSegment;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Hash of the path that leads to the root.
pub(crate) const ROOT_HASH: u64 = 0x5348_4152_444c_414b;
const ELEMENT: u64 = 0x5b5d;
const COMPOSITE: u64 = 0x636f_6d70;
const SUMMARY: u64 = 0x7375_6d6d;

/// Hash of the path one property further.
pub(crate) fn hash_of_member(parent: u64, name: &str) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), parent)
}

/// Hash of the path of an array's elements, at any position.
pub(crate) fn hash_of_elements(parent: u64) -> u64 {
    xxh3_64_with_seed(&ELEMENT.to_be_bytes(), parent.rotate_left(17))
}

pub fn path_hash(path: &[IndexPathSegment]) -> u64 {
    path.iter().fold(ROOT_HASH, |parent, segment| match segment {
        IndexPathSegment::Name(name) => hash_of_member(parent, name),
        IndexPathSegment::AnyElement | IndexPathSegment::Element(_) => hash_of_elements(parent),
    })
}

/// Hash of the summary of an array, given the hash of its elements.
pub(crate) fn hash_of_summary(elements: u64) -> u64 {
    xxh3_64_with_seed(&SUMMARY.to_be_bytes(), elements)
}

/// Hash of an item's summary of the outermost array on a path. `None` for a path without array elements.
pub fn summary_hash(path: &[IndexPathSegment]) -> Option<u64> {
    let outermost = path.iter().position(|segment| !matches!(segment, IndexPathSegment::Name(_)))?;
    Some(hash_of_summary(path_hash(&path[..=outermost])))
}

/// Hash of a composite index: of its members and their order.
pub(crate) fn composite_hash(members: &[(Vec<IndexPathSegment>, bool)]) -> u64 {
    let mut bytes = COMPOSITE.to_be_bytes().to_vec();
    for (path, inverted) in members {
        bytes.extend_from_slice(&path_hash(path).to_be_bytes());
        bytes.push(u8::from(*inverted));
    }
    xxh3_64(&bytes)
}
