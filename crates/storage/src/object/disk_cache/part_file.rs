//! A part of a table, and the bytes of its file in the cache.
//!
//! ```text
//! "shardlake part 1" │ checksum u64 │ bytes of the object u64 │ number u64 │ length of the path u32 │ path │ content    little-endian
//! ```
//! The checksum (xxh3) is over everything behind it. So a file identifies its part: a file under a
//! wrong name is rejected.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

/// One request to a cloud takes as long for so much as for a block.
pub(super) const PART_BYTES: u64 = 256 << 10;
const MAGIC: &[u8; 16] = b"shardlake part 1";
const CHECKSUM_BYTES: usize = 8;
/// Behind the checksum, before the path.
const NUMBERS_BYTES: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub content: Bytes,
    /// Size of the whole table.
    pub object_bytes: u64,
}

/// Size of a part of an object of so many bytes.
fn size_of_part(number: u64, object_bytes: u64) -> u64 {
    object_bytes.saturating_sub(number.saturating_mul(PART_BYTES)).min(PART_BYTES)
}

pub(super) fn encode(path: &str, number: u64, part: &Part) -> Bytes {
    let mut rest = BytesMut::with_capacity(NUMBERS_BYTES + path.len() + part.content.len());
    rest.put_u64_le(part.object_bytes);
    rest.put_u64_le(number);
    rest.put_u32_le(path.len() as u32);
    rest.put_slice(path.as_bytes());
    rest.put_slice(&part.content);
    let mut file = BytesMut::with_capacity(MAGIC.len() + CHECKSUM_BYTES + rest.len());
    file.put_slice(MAGIC);
    file.put_u64_le(xxh3_64(&rest));
    file.put_slice(&rest);
    file.freeze()
}

/// `None`: the file was not written for this part.
pub(super) fn decode(mut file: Bytes, path: &str, number: u64) -> Option<Part> {
    if file.len() < MAGIC.len() + CHECKSUM_BYTES + NUMBERS_BYTES || &file.split_to(MAGIC.len())[..] != MAGIC {
        return None;
    }
    let checksum = file.get_u64_le();
    if xxh3_64(&file) != checksum {
        return None;
    }
    let object_bytes = file.get_u64_le();
    let is_part = file.get_u64_le() == number;
    let path_bytes = file.get_u32_le() as usize;
    let is_path = path_bytes <= file.len() && &file.split_to(path_bytes)[..] == path.as_bytes();
    // A part with another size, from another version, would leave a hole between its neighbours.
    let is_whole = file.len() as u64 == size_of_part(number, object_bytes);
    (is_part && is_path && is_whole).then_some(Part { content: file, object_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_back_and_every_other_file_refused() {
        let part = Part { content: Bytes::from_static(b"blocks"), object_bytes: 3 * PART_BYTES + 6 };
        let file = encode("s/1/compacted/A.sst", 3, &part);
        assert_eq!(decode(file.clone(), "s/1/compacted/A.sst", 3), Some(part));
        assert_eq!(decode(file.clone(), "s/1/compacted/A.sst", 4), None);
        assert_eq!(decode(file.clone(), "s/1/compacted/B.sst", 3), None);
        let cut_otherwise = Part {
            object_bytes: 3 * PART_BYTES + 7,
            ..decode(file.clone(), "s/1/compacted/A.sst", 3).expect("read above")
        };
        assert_eq!(decode(encode("s/1/compacted/A.sst", 3, &cut_otherwise), "s/1/compacted/A.sst", 3), None);
        for at in 0..file.len() {
            let mut damaged = file.to_vec();
            damaged[at] ^= 0x40;
            assert_eq!(decode(damaged.into(), "s/1/compacted/A.sst", 3), None, "byte {at}");
            assert_eq!(decode(file.slice(..at), "s/1/compacted/A.sst", 3), None, "{at} bytes");
        }
    }
}
