//! Kinds of keys, known to the local engine from the keys alone. A wrong kind costs time and
//! memory, and no answer depends on it.
//!
//! Postings of the index are twenty of the some 24 rows of an item of 1 KB, they have no values,
//! and queries scan them: no filter has them, and a memtable keeps those of one path together,
//! unsorted until a reader scans the path or the memtable is sorted to disk.

use fjall::config::KeyKinds;

/// Keys lead with the number of their partition.
pub(crate) const UID_BYTES: usize = 4;
const POSTINGS: u8 = b'X';
/// Partition, space, generation of the index and path.
const PATH_BYTES: usize = UID_BYTES + size_of::<u8>() + size_of::<u16>() + size_of::<u64>();

pub(crate) const KEY_KINDS: KeyKinds =
    KeyKinds { is_scanned: |key| posting_path_bytes(key).is_some(), family_len: posting_path_bytes };

/// How many bytes a posting has in common with those of its path; `None` for any other key.
pub fn posting_path_bytes(key: &[u8]) -> Option<usize> {
    (key.get(UID_BYTES) == Some(&POSTINGS) && key.len() > PATH_BYTES).then_some(PATH_BYTES)
}
