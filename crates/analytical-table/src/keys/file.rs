//! Form of a key file: blocks of sorted hashes with row numbers, then fences, Bloom filter and end.
//!
//! | part | content |
//! |---|---|
//! | blocks | up to 128 entries of hash and row number (little endian), and their CRC-32 |
//! | fences | the first hash of each block |
//! | filter | ten bits a row |
//! | end | magic, rows, bytes of the filter, CRC-32 of fences, filter and the numbers before it |

use super::{KeyHash, bloom};
use crate::error::TableError;
use crate::store::TableStore;

const MAGIC: &[u8; 8] = b"SLKEYS01";
const BLOCK_ENTRIES: usize = 128;
const ENTRY: usize = 20;
const BLOCK: usize = BLOCK_ENTRIES * ENTRY + 4;
const END: usize = 8 + 4 + 4 + 4;
/// From one searched hash for this many blocks, one read of the whole file is cheaper.
const BLOCKS_PER_READ: usize = 4;

/// The file of these hashes and their row numbers.
pub fn encode(mut entries: Vec<(KeyHash, u32)>) -> Vec<u8> {
    entries.sort_unstable();
    let mut bytes = Vec::with_capacity(entries.len() * 22 + END);
    let mut index = Vec::new();
    for block in entries.chunks(BLOCK_ENTRIES) {
        let start = bytes.len();
        for (hash, row) in block {
            bytes.extend_from_slice(hash);
            bytes.extend_from_slice(&row.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[start..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        index.extend_from_slice(&block[0].0);
    }
    let filter = bloom::build(entries.len(), entries.iter().map(|(hash, _)| hash));
    index.extend_from_slice(&filter);
    index.extend_from_slice(MAGIC);
    index.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    index.extend_from_slice(&(filter.len() as u32).to_le_bytes());
    let checksum = crc32fast::hash(&index);
    bytes.extend_from_slice(&index);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Fences and filter of a key file; its blocks are read when they are needed.
#[derive(Debug)]
pub struct KeyIndex {
    path: String,
    rows: usize,
    fences: Vec<KeyHash>,
    filter: Vec<u8>,
}

impl KeyIndex {
    /// Reads the end of a file, which must have an entry for each row of its data file.
    pub fn open(store: &dyn TableStore, path: &str, rows: u64) -> Result<KeyIndex, TableError> {
        let damaged = || TableError::damaged(path, "the key file is not whole");
        let size = store.size(path)? as usize;
        let rows = usize::try_from(rows).map_err(|_| damaged())?;
        let blocks = rows.div_ceil(BLOCK_ENTRIES);
        let start = rows * ENTRY + blocks * 4;
        let length = size.checked_sub(start).filter(|length| *length >= END).ok_or_else(damaged)?;
        let index = store.read_range(path, start as u64, length)?;
        let (summed, checksum) = index.split_at(length - 4);
        let number =
            |from: usize| summed[from..from + 4].iter().rev().fold(0, |sum, b| sum << 8 | usize::from(*b));
        let (found, filter) = (number(length - 12), number(length - 8));
        let is_whole = checksum == crc32fast::hash(summed).to_le_bytes()
            && summed[length - END..].starts_with(MAGIC)
            && found == rows
            && blocks * 16 + filter + END == length;
        if !is_whole {
            return Err(damaged());
        }
        let fences = summed[..blocks * 16].chunks_exact(16);
        Ok(KeyIndex {
            path: path.to_owned(),
            rows,
            fences: fences.map(|fence| fence.try_into().expect("chunks of 16 bytes")).collect(),
            filter: summed[blocks * 16..blocks * 16 + filter].to_vec(),
        })
    }

    pub fn may_contain(&self, hash: &KeyHash) -> bool {
        bloom::may_contain(&self.filter, hash)
    }

    /// Bytes in memory.
    pub fn weight(&self) -> usize {
        self.filter.len() + self.fences.len() * 16 + 128
    }

    /// The row of each hash that the file has. The hashes ascend.
    pub fn find(
        &self,
        store: &dyn TableStore,
        hashes: &[KeyHash],
    ) -> Result<Vec<(KeyHash, u32)>, TableError> {
        debug_assert!(hashes.is_sorted(), "look-ups are merged with the sorted file");
        let whole = if hashes.len() * BLOCKS_PER_READ > self.fences.len() {
            Some(store.read_range(&self.path, 0, self.rows * ENTRY + self.fences.len() * 4)?)
        } else {
            None
        };
        let mut found = Vec::new();
        let mut at = 0;
        while at < hashes.len() {
            let Some(block) = self.block_of(&hashes[at]) else {
                at += 1;
                continue;
            };
            let end = self.fences.get(block + 1);
            let group =
                hashes[at..].iter().take_while(|hash| end.is_none_or(|end| *hash < end)).count().max(1);
            let start = block * BLOCK;
            let length = BLOCK.min(self.rows * ENTRY + self.fences.len() * 4 - start);
            let bytes = match &whole {
                Some(whole) => whole.slice(start..start + length),
                None => store.read_range(&self.path, start as u64, length)?,
            };
            self.find_in(&bytes, &hashes[at..at + group], &mut found)?;
            at += group;
        }
        Ok(found)
    }

    /// The only block that can hold a hash.
    fn block_of(&self, hash: &KeyHash) -> Option<usize> {
        self.fences.partition_point(|fence| fence <= hash).checked_sub(1)
    }

    fn find_in(
        &self,
        block: &[u8],
        hashes: &[KeyHash],
        found: &mut Vec<(KeyHash, u32)>,
    ) -> Result<(), TableError> {
        let (entries, checksum) = block.split_at(block.len() - 4);
        if checksum != crc32fast::hash(entries).to_le_bytes() {
            return Err(TableError::damaged(&self.path, "the checksum of a block is wrong"));
        }
        let entries: Vec<&[u8]> = entries.chunks_exact(ENTRY).collect();
        for hash in hashes {
            if let Ok(at) = entries.binary_search_by(|entry| entry[..16].cmp(&hash[..])) {
                let row = entries[at][16..].iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
                found.push((*hash, row));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyHasher;
    use super::*;
    use crate::store::MemoryStore;

    fn hashes(count: u64) -> Vec<(KeyHash, u32)> {
        let hasher = KeyHasher::new(b"a secret");
        (0..count).map(|ordinal| (hasher.hash(ordinal, 7), ordinal as u32)).collect()
    }

    #[test]
    fn every_row_is_found_and_no_other() {
        let store = MemoryStore::new();
        let entries = hashes(2_000);
        for count in [0, 1, 127, 128, 129, 1_000] {
            store.overwrite("k", &encode(entries[..count].to_vec()));
            let index = KeyIndex::open(&store, "k", count as u64).unwrap();
            let mut all: Vec<KeyHash> = entries.iter().map(|(hash, _)| *hash).collect();
            all.sort_unstable();
            let mut found = index.find(&store, &all).unwrap();
            found.sort_by_key(|(_, row)| *row);
            assert_eq!(found, entries[..count], "{count}");
            for (hash, row) in &entries[..count] {
                assert!(index.may_contain(hash));
                assert_eq!(index.find(&store, &[*hash]).unwrap(), [(*hash, *row)]);
            }
            let others = &entries[count..];
            let hits = others.iter().filter(|(hash, _)| index.may_contain(hash)).count();
            assert!(count == 0 || hits * 20 <= others.len(), "{hits} false hits");
        }
    }

    #[test]
    fn damage_is_noticed() {
        let store = MemoryStore::new();
        let entries = hashes(300);
        let good = encode(entries.clone());
        let mut sorted: Vec<KeyHash> = entries.iter().map(|(hash, _)| *hash).collect();
        sorted.sort_unstable();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            store.overwrite("k", &bad);
            let read = KeyIndex::open(&store, "k", 300).and_then(|index| index.find(&store, &sorted));
            assert!(matches!(read, Err(TableError::Damaged { .. })), "byte {at}");
        }
        store.overwrite("k", &good);
        assert!(KeyIndex::open(&store, "k", 299).is_err(), "another data file");
    }
}
