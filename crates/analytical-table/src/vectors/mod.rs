//! Deletion vectors: bitmaps of deleted rows in the form that the Delta protocol prescribes.
//!
//! A file is a version byte and then, for each vector, its length (big endian), the bitmap and its
//! CRC-32 (big endian). A bitmap is a magic number and a count of 32-bit bitmaps with their upper
//! halves, all little endian; tables here have fewer than 2^32 rows in a file and need one.

use roaring::RoaringBitmap;
use shardlake_stdx::Guid;

use crate::error::TableError;
use crate::log::VectorRef;
use crate::store::TableStore;

const MAGIC: u32 = 1_681_511_377;
const VERSION: u8 = 1;
/// Magic number, number of bitmaps, upper half of the first one.
const HEAD: usize = 4 + 8 + 4;

const NAME: &str = "deletion_vector_";
const ENDING: &str = ".bin";

/// Path of a vector file in a folder of the table; the empty folder is the table's own.
pub fn path(folder: &str, guid: Guid) -> String {
    let slash = if folder.is_empty() { "" } else { "/" };
    format!("{folder}{slash}{NAME}{guid}{ENDING}")
}

/// Folder and name of a path that [`path`] made.
pub fn parts(path: &str) -> Option<(&str, Guid)> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    Some((folder, Guid::parse(name.strip_prefix(NAME)?.strip_suffix(ENDING)?)?))
}

/// Contents of one file, and the place of each vector in the given order.
pub fn encode(path: &str, vectors: &[RoaringBitmap]) -> (Vec<u8>, Vec<VectorRef>) {
    let mut bytes = vec![VERSION];
    let mut places = Vec::with_capacity(vectors.len());
    for bitmap in vectors {
        assert!(!bitmap.is_empty(), "a vector deletes at least one row");
        let mut body = Vec::with_capacity(HEAD + bitmap.serialized_size());
        body.extend_from_slice(&MAGIC.to_le_bytes());
        body.extend_from_slice(&1u64.to_le_bytes());
        body.extend_from_slice(&0u32.to_le_bytes());
        bitmap.serialize_into(&mut body).expect("memory takes all bytes");
        places.push(VectorRef {
            path: path.to_owned(),
            offset: bytes.len() as u32,
            size: body.len() as u32,
            cardinality: bitmap.len(),
        });
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    }
    (bytes, places)
}

/// The numbers of the deleted rows.
pub fn read(store: &dyn TableStore, base: &str, vector: &VectorRef) -> Result<RoaringBitmap, TableError> {
    let path = format!("{base}{}", vector.path);
    let size = vector.size as usize;
    let bytes = store.read_range(&path, u64::from(vector.offset), size + 8).map_err(|error| {
        if error.is_missing() { TableError::damaged(&path, error.reason) } else { error.into() }
    })?;
    let bitmap = decode(&bytes, size).map_err(|reason| TableError::damaged(&path, reason))?;
    if bitmap.len() == vector.cardinality {
        Ok(bitmap)
    } else {
        Err(TableError::damaged(&path, "the vector has another number of rows"))
    }
}

fn decode(bytes: &[u8], size: usize) -> Result<RoaringBitmap, &'static str> {
    let length = u32::from_be_bytes(four(bytes, 0)?) as usize;
    let body = bytes.get(4..4 + size).ok_or("the vector is too short")?;
    if length != size || u32::from_be_bytes(four(bytes, 4 + size)?) != crc32fast::hash(body) {
        return Err("the checksum of the vector is wrong");
    }
    let count = body.get(4..12).ok_or("the vector is too short")?;
    if u32::from_le_bytes(four(body, 0)?) != MAGIC || count != 1u64.to_le_bytes() || four(body, 12)? != [0; 4]
    {
        return Err("the vector has an unknown form");
    }
    RoaringBitmap::deserialize_from(&body[HEAD..]).map_err(|_| "the bitmap cannot be read")
}

fn four(bytes: &[u8], at: usize) -> Result<[u8; 4], &'static str> {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).ok_or("the vector is too short")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    /// The bitmap of the example in Delta's protocol.
    const ROWS: [u32; 6] = [3, 4, 7, 11, 18, 29];
    const BITMAP: &str = "3a300000010000000000050010000000\
                          0300040007000b0012001d00";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_file_has_the_form_of_the_protocol() {
        let (bytes, places) = encode("v", &[RoaringBitmap::from_iter(ROWS)]);
        let body = format!("d1d33964{}{}{BITMAP}", "0100000000000000", "00000000");
        let checksum = crc32fast::hash(&bytes[5..5 + 44]);
        assert_eq!(hex(&bytes), format!("01{:08x}{body}{checksum:08x}", 44));
        assert_eq!(places, [VectorRef { path: "v".to_owned(), offset: 1, size: 44, cardinality: 6 }]);
    }

    #[test]
    fn vectors_of_one_file_are_read_by_offset() {
        let store = MemoryStore::new();
        let large: RoaringBitmap = (0..200_000).filter(|row| row % 3 > 0).collect();
        let bitmaps = [RoaringBitmap::from_iter(ROWS), large, RoaringBitmap::from_iter([u32::MAX - 1])];
        let (bytes, places) = encode("v", &bitmaps);
        store.overwrite("g1/v", &bytes);
        for (bitmap, place) in bitmaps.iter().zip(&places) {
            assert!(read(&store, "g1/", place).unwrap() == *bitmap);
        }
        for at in 1..bytes.len().min(60) {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            store.overwrite("g1/v", &bad);
            let is_in_first = at <= places[0].size as usize + 8;
            assert_eq!(read(&store, "g1/", &places[0]).is_err(), is_in_first, "byte {at}");
        }
    }

    #[test]
    fn names_of_vector_files_have_two_parts() {
        let guid = Guid([7; 16]);
        for folder in ["", "g12", "a/b"] {
            assert_eq!(parts(&path(folder, guid)), Some((folder, guid)));
        }
        assert_eq!(parts("g1/part-1.parquet"), None);
    }
}
