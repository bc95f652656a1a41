//! Objects of a shard in a store: their paths, and the objects of its log.

use slatedb::object_store::ObjectMeta;
use slatedb::object_store::path::Path;

/// Folder of the log.
pub(super) const LOG: &str = "wal";

/// An object of the log.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub number: u64,
    pub place: Path,
    pub size_bytes: u64,
    pub stored_ms: i64,
    /// As far as the store distinguishes versions of an object.
    pub version: String,
}

impl Object {
    pub fn of(object: ObjectMeta) -> Option<Object> {
        let number = object.location.filename()?.strip_suffix(".sst")?.parse().ok()?;
        let version = object.e_tag.unwrap_or_else(|| object.last_modified.to_rfc3339());
        let stored_ms = object.last_modified.timestamp_millis();
        Some(Object { number, place: object.location, size_bytes: object.size, stored_ms, version })
    }
}

pub(super) fn below(shard: &Path, path: &str) -> Path {
    shard.parts().chain(Path::from(path).parts()).collect()
}

pub(super) fn place_of(shard: &Path, number: u64) -> Path {
    below(shard, &format!("{LOG}/{number:020}.sst"))
}
