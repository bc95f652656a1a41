//! Deletion vectors: bitmaps of deleted rows in the form that the Delta protocol prescribes.
//!
//! A file is a version byte and then, for each vector, its length (big endian), the bitmap and its
//! CRC-32 (big endian). A bitmap is a magic number and a count of 32-bit bitmaps with their upper
//! halves, all little endian; tables here have fewer than 2^32 rows in a file and need one.

use std::collections::BTreeMap;

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

/// All vectors of a version by the path of their data file.
pub fn read_all<'a>(
    store: &dyn TableStore,
    base: &str,
    vectors: impl Iterator<Item = (&'a str, &'a VectorRef)>,
) -> Result<BTreeMap<String, RoaringBitmap>, TableError> {
    vectors.map(|(path, vector)| Ok((path.to_owned(), read(store, base, vector)?))).collect()
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
