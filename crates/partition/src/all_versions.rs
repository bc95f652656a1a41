//! All versions and deletes: what an operation of the log wrote and what it ended.

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::{Row, Snapshot};

use crate::change_feed::{FeedLook, KeyTest, Page};
use crate::change_log::{ChangeKind, LogEntry, LogOperation};
use crate::change_sink::Change;
use crate::item::StoredItem;
use crate::keys::{self, ITEMS};
use crate::log_marks::NOT_KEPT;
use crate::partition::Partition;

impl Partition {
    /// Refuses a position from before what is kept.
    pub(crate) fn check_past(&self, look: &FeedLook<'_>, keys: &KeyTest<'_>) -> Result<()> {
        let past = self.past.marks().past_of(&keys.start, keys.end.as_deref());
        if past.versions_from == NOT_KEPT || !self.past.keeps_versions() {
            return Err(not_enabled());
        }
        if look.after < past.versions_from.max(past.compacted_to) {
            return Err(self.too_old(look.after));
        }
        Ok(())
    }

    fn too_old(&self, after: u64) -> Error {
        let minutes = self.past.retention().as_secs() / 60;
        Error::bad_request(format!(
            "the change feed position {after} of partition key range {} is older than what is kept: changeFeedPolicy.retentionDuration keeps all versions and deletes for {minutes} minutes; start again from now",
            self.range_id
        ))
    }
}

/// The reference's words.
pub fn not_enabled() -> Error {
    Error::new(
        ErrorKind::BadRequest,
        "The change feed mode 'All Versions and Deletes' must be enabled for the container: set changeFeedPolicy.retentionDuration to the minutes for which versions are to be kept",
    )
}

impl Page<'_> {
    /// Like the latest version's, with everything that the operations did.
    pub async fn take_versions(
        &mut self,
        snapshot: &Snapshot,
        rows: impl Iterator<Item = Row>,
    ) -> Result<bool> {
        let oldest_ms =
            self.look.now.milliseconds().saturating_sub(self.partition.past.retention().as_millis() as u64);
        for (key, value) in rows {
            let lsn = keys::log_lsn(&key)?;
            let entry = LogEntry::decode(&value)?;
            let before = self.out.size_bytes();
            let (mut changes, mut charge_centi) = (0, 0);
            for operation in &entry.operations {
                if !self.keys.matches(&operation.key)? {
                    continue;
                }
                if entry.timestamp_ms < oldest_ms {
                    return Err(self.partition.too_old(self.look.after));
                }
                charge_centi += self.show_version(snapshot, (lsn, entry.timestamp_ms), operation).await?;
                changes += 1;
            }
            let size_bytes = self.out.size_bytes() - before;
            if self.found.changes > 0 && changes > 0 && !self.has_room(changes, size_bytes) {
                self.out.cut(before);
                return Ok(false);
            }
            self.found.changes += changes;
            self.found.size_bytes += size_bytes;
            self.found.charge_centi += charge_centi;
            self.found.last_lsn = lsn;
            if !self.has_room(1, 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says what it cost.
    async fn show_version(
        &mut self,
        snapshot: &Snapshot,
        (lsn, timestamp_ms): (u64, u64),
        operation: &LogOperation,
    ) -> Result<u64> {
        let exists = matches!(operation.kind, ChangeKind::Create | ChangeKind::Replace);
        let current = match exists {
            true => Some(self.version(snapshot, &operation.key, lsn).await?),
            false => None,
        };
        let previous = match operation.kind {
            ChangeKind::Create => None,
            _ => Some(self.version(snapshot, &operation.key, operation.previous_lsn).await?),
        };
        let (logical, id) = keys::parse_item_key(&operation.key).ok_or_else(crate::malformed_key)?;
        self.out.push(&Change::Version {
            kind: operation.kind,
            lsn,
            timestamp_ms,
            current: current.as_ref(),
            previous: previous.as_ref(),
            id,
            partition_key: &logical.partition_key,
            key_paths: &self.look.shape.key_paths,
        });
        let charges = &self.look.shape.charges;
        let read = |item: &StoredItem| charges.read(item.json_size_bytes(), self.look.consistency).0;
        Ok(current.iter().chain(&previous).map(read).sum())
    }

    /// The version of an item that a commit wrote.
    async fn version(&self, snapshot: &Snapshot, item: &[u8], lsn: u64) -> Result<StoredItem> {
        let uid = self.partition.uid;
        let live = snapshot.get(&keys::with_header(uid, ITEMS, item)).await.map_err(crate::storage_error)?;
        if let Some(bytes) = live {
            let item = StoredItem::decode(bytes, self.look.shape)?;
            if item.lsn() == lsn {
                return Ok(item);
            }
        }
        let ended = snapshot.get(&keys::version_key(uid, item, lsn)).await.map_err(crate::storage_error)?;
        let ended = ended.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("the version that LSN {lsn} wrote of an item is missing"))
        })?;
        StoredItem::decode(ended, self.look.shape)
    }
}
