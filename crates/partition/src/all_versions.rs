//! All versions and deletes: what an operation of the log wrote and what it ended, as clients see it.
//!
//! ```text
//! { "current": {…}, "previous": {…}, "metadata": { "operationType", "lsn", "crts", "previousImageLSN",
//!                                                  "timeToLiveExpired", "id", "partitionKey" } }
//! ```
//! `current` is empty for what was deleted, `previous` is missing for what was created; the last three of the metadata are those
//! of deletions. `crts` is the time of the commit in seconds.

use shardlake_document::{write_json_string, write_key_component};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::{Row, Snapshot};

use crate::change_feed::{FeedLook, KeyTest, Page};
use crate::change_log::{ChangeKind, LogEntry, LogOperation};
use crate::item::StoredItem;
use crate::keys::{self, ITEMS};
use crate::log_marks::NOT_KEPT;
use crate::partition::Partition;
use crate::shape::ContainerShape;

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
            let mut changes = Changes::default();
            for operation in &entry.operations {
                if !self.keys.matches(&operation.key)? {
                    continue;
                }
                if entry.timestamp_ms < oldest_ms {
                    return Err(self.partition.too_old(self.look.after));
                }
                self.add(snapshot, &mut changes, (lsn, entry.timestamp_ms), operation).await?;
            }
            if self.found.changes > 0
                && changes.count > 0
                && !self.has_room(changes.count, changes.text.len())
            {
                return Ok(false);
            }
            self.append(changes);
            self.found.last_lsn = lsn;
            if !self.has_room(1, 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn add(
        &self,
        snapshot: &Snapshot,
        changes: &mut Changes,
        at: (u64, u64),
        operation: &LogOperation,
    ) -> Result<()> {
        let exists = matches!(operation.kind, ChangeKind::Create | ChangeKind::Replace);
        let current = match exists {
            true => Some(self.version(snapshot, &operation.key, at.0).await?),
            false => None,
        };
        let previous = match operation.kind {
            ChangeKind::Create => None,
            _ => Some(self.version(snapshot, &operation.key, operation.previous_lsn).await?),
        };
        for item in current.iter().chain(&previous) {
            changes.charge_centi +=
                self.look.shape.charges.read(item.json_size_bytes(), self.look.consistency).0;
        }
        changes.write(self.look.shape, at, operation, (current.as_ref(), previous.as_ref()))
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

    fn append(&mut self, changes: Changes) {
        if changes.count == 0 {
            return;
        }
        if !self.out.is_empty() {
            self.out.push(b',');
        }
        self.out.extend_from_slice(&changes.text);
        self.found.changes += changes.count;
        self.found.size_bytes += changes.text.len();
        self.found.charge_centi += changes.charge_centi;
    }
}

/// What one commit did, as JSON.
#[derive(Default)]
struct Changes {
    text: Vec<u8>,
    count: usize,
    charge_centi: u64,
}

impl Changes {
    fn write(
        &mut self,
        shape: &ContainerShape,
        (lsn, timestamp_ms): (u64, u64),
        operation: &LogOperation,
        (current, previous): (Option<&StoredItem>, Option<&StoredItem>),
    ) -> Result<()> {
        let out = &mut self.text;
        out.extend_from_slice(if self.count > 0 { b",{\"current\":" } else { b"{\"current\":" });
        match current {
            Some(item) => item.write_json(out),
            None => out.extend_from_slice(b"{}"),
        }
        if let Some(item) = previous {
            out.extend_from_slice(b",\"previous\":");
            item.write_json(out);
        }
        let name = match operation.kind {
            ChangeKind::Create => "create",
            ChangeKind::Replace => "replace",
            ChangeKind::Delete | ChangeKind::Expire => "delete",
        };
        let seconds = current.map_or(timestamp_ms / 1000, |item| item.envelope().timestamp_seconds);
        let metadata =
            format!(",\"metadata\":{{\"operationType\":\"{name}\",\"lsn\":{lsn},\"crts\":{seconds}");
        out.extend_from_slice(metadata.as_bytes());
        if let Some(previous) = previous {
            out.extend_from_slice(format!(",\"previousImageLSN\":{}", previous.lsn()).as_bytes());
        }
        if current.is_none() {
            let expired = operation.kind == ChangeKind::Expire;
            out.extend_from_slice(format!(",\"timeToLiveExpired\":{expired},\"id\":").as_bytes());
            write_name(shape, operation, out)?;
        }
        out.extend_from_slice(b"}}");
        self.count += 1;
        Ok(())
    }
}

/// The id and the partition key of what was deleted.
fn write_name(shape: &ContainerShape, operation: &LogOperation, out: &mut Vec<u8>) -> Result<()> {
    let (logical, id) = keys::parse_item_key(&operation.key).ok_or_else(crate::malformed_key)?;
    write_json_string(id, out);
    out.extend_from_slice(b",\"partitionKey\":{");
    for (place, (path, component)) in shape.key_paths.iter().zip(&logical.partition_key.0).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_json_string(&path.0.join("/"), out);
        out.push(b':');
        write_key_component(component, out);
    }
    out.push(b'}');
    Ok(())
}
