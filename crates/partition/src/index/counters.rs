//! Counts of the items that have a value under a path, as a partition opens with them.

use shardlake_model::Result;
use shardlake_storage::{ScanOptions, View};

use super::keys::decode_counter;
use super::maintain::{Count, CountedPath};
use crate::keys::{COUNTERS, HEADER, PartitionUid, space_range};

/// The paths that a partition counts, from storage.
pub(crate) async fn load_counted(view: &View, uid: PartitionUid) -> Result<Vec<CountedPath>> {
    let (start, end) = space_range(uid, COUNTERS);
    let mut scan = view.scan(start..end, ScanOptions::default());
    let mut counted = Vec::new();
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, value) in rows {
            let rest = key.get(HEADER..).unwrap_or_default();
            let (Some(id), Some(hash)) = (rest.first_chunk::<2>(), rest.last_chunk::<8>()) else {
                return Err(crate::malformed_key());
            };
            let (index_id, path_hash) = (u16::from_be_bytes(*id), u64::from_be_bytes(*hash));
            let count = Count::Known(decode_counter(&value)?);
            counted.push(CountedPath { index_id, path_hash, count });
        }
    }
    Ok(counted)
}
