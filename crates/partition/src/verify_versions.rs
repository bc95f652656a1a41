//! Compares the versions that have ended with the log: the version that an operation ended is
//! there, as long as it is kept, and no other version.
//!
//! Holds a key for every such operation, where versions are kept at all.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use shardlake_model::Result;
use shardlake_storage::{ScanOptions, Snapshot};

use crate::item::StoredItem;
use crate::keys::{self, HEADER, PartitionUid};
use crate::log::entry::{ChangeKind, LogOperation};
use crate::log::marks::Past;
use crate::shape::ContainerSchema;

#[derive(Default)]
pub(crate) struct VersionsVerifier {
    /// Rows by key without header, and whether they must be there. `None` where there are none and none are kept.
    ended: Option<FxHashMap<Vec<u8>, bool>>,
}

impl VersionsVerifier {
    pub async fn new(snapshot: &Snapshot, uid: PartitionUid, are_kept: bool) -> Result<Self> {
        let (start, end) = keys::space_range(uid, keys::VERSIONS);
        let mut scan = snapshot.scan(start..end, ScanOptions { limit: Some(1), ..ScanOptions::default() });
        let is_any = are_kept || scan.next_chunk().await.map_err(crate::storage_error)?.is_some();
        Ok(VersionsVerifier { ended: is_any.then(FxHashMap::default) })
    }

    /// The log has an operation, of a part of the hash space of which so much is known.
    pub fn expect(&mut self, operation: &LogOperation, lsn: u64, past: Past) {
        let Some(ended) = &mut self.ended else { return };
        if operation.previous_lsn > 0 && operation.kind != ChangeKind::Create {
            let key = keys::version_key(PartitionUid(0), &operation.key, operation.previous_lsn);
            ended.insert(key[HEADER..].to_vec(), lsn > past.versions_from && lsn > past.compacted_to);
        }
    }

    /// The problems found.
    pub async fn finish(
        self,
        snapshot: &Snapshot,
        uid: PartitionUid,
        shape: &Arc<ContainerSchema>,
    ) -> Result<Vec<String>> {
        let Some(mut ended) = self.ended else { return Ok(vec![]) };
        let mut problems = Vec::new();
        let (start, end) = keys::space_range(uid, keys::VERSIONS);
        let mut scan = snapshot.scan(start..end, ScanOptions::SWEEP);
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, record) in rows {
                let name = key[HEADER..].escape_ascii();
                if ended.remove(&key[HEADER..]).is_none() {
                    problems.push(format!("version {name}: the change log does not say that it ended"));
                }
                let lsn = key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
                match StoredItem::decode(record, shape) {
                    Ok(item) if Some(item.lsn()) == lsn => {}
                    Ok(item) => problems.push(format!("version {name}: its record has LSN {}", item.lsn())),
                    Err(error) => problems.push(format!("version {name}: {error}")),
                }
            }
        }
        let missing = ended.iter().filter(|(_, must_be)| **must_be);
        problems.extend(missing.map(|(key, _)| format!("version {} is missing", key.escape_ascii())));
        Ok(problems)
    }
}
