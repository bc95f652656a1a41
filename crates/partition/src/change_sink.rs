//! Changes as values, and where they go: a page of the feed hands each change to a sink, which keeps it as its reader wants
//! it. Here is the sink of readers of JSON.
//!
//! *Latest version*: the item with its LSN behind its last property. *All versions and deletes*:
//!
//! ```text
//! { "current": {…}, "previous": {…}, "metadata": { "operationType", "lsn", "crts", "previousImageLSN",
//!                                                  "timeToLiveExpired", "id", "partitionKey" } }
//! ```
//! `current` is empty for deletions. `previous` is missing for creations, and where the reader does not want it. The last three of the metadata
//! are those of deletions. `crts` is the time of the commit in seconds.

use shardlake_document::{write_json_string, write_key_component};
use shardlake_model::{KeyPath, PartitionKey};
use shardlake_routing::Epk;

use crate::item::StoredItem;
use crate::log::entry::ChangeKind;

/// An operation as a page reports it.
#[derive(Debug)]
pub enum Change<'a> {
    /// The last version of an item that changed.
    Latest(&'a StoredItem),
    /// One of all versions.
    Version {
        kind: ChangeKind,
        lsn: u64,
        timestamp_ms: u64,
        /// The version that it wrote.
        current: Option<&'a StoredItem>,
        /// The version that it ended, where the reader wants it.
        previous: Option<&'a StoredItem>,
        /// The LSN of that version.
        previous_lsn: Option<u64>,
        id: &'a str,
        /// The hash of its partition key.
        epk: &'a Epk,
        partition_key: &'a PartitionKey,
        key_paths: &'a [KeyPath],
    },
}

/// Receiver of changes. A page may take back the change that it handed over last.
pub trait ChangeSink: Send + Sync {
    fn push(&mut self, change: &Change<'_>);

    /// Size of all changes that it holds.
    fn size_bytes(&self) -> usize;

    /// Removes everything behind this size.
    fn cut(&mut self, size_bytes: usize);
}

/// The changes as JSON, separated by commas.
#[derive(Debug, Default)]
pub struct JsonChanges(pub Vec<u8>);

impl ChangeSink for JsonChanges {
    fn push(&mut self, change: &Change<'_>) {
        self.separate();
        match change {
            Change::Latest(item) => self.latest(item),
            Change::Version { .. } => self.version(change),
        }
    }

    fn size_bytes(&self) -> usize {
        self.0.len()
    }

    fn cut(&mut self, size_bytes: usize) {
        self.0.truncate(size_bytes);
    }
}

/// The changes as JSON, where latest versions have their metadata as well:
///
/// ```text
/// { "current": {…}, "metadata": { "lsn", "crts" } }
/// ```
#[derive(Debug, Default)]
pub struct JsonChangesWithMetadata(pub JsonChanges);

impl ChangeSink for JsonChangesWithMetadata {
    fn push(&mut self, change: &Change<'_>) {
        let Change::Latest(item) = change else { return self.0.push(change) };
        self.0.separate();
        self.0.text("{\"current\":");
        item.write_json(&mut self.0.0);
        let (lsn, seconds) = (item.lsn(), item.envelope().timestamp_seconds());
        self.0.text(&format!(",\"metadata\":{{\"lsn\":{lsn},\"crts\":{seconds}}}}}"));
    }

    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }

    fn cut(&mut self, size_bytes: usize) {
        self.0.cut(size_bytes);
    }
}

impl JsonChanges {
    fn separate(&mut self) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
    }

    fn latest(&mut self, item: &StoredItem) {
        item.write_json(&mut self.0);
        // The LSN comes last, where the brace was.
        self.0.pop();
        self.text(&format!(",\"_lsn\":{}}}", item.lsn()));
    }

    fn version(&mut self, change: &Change<'_>) {
        let &Change::Version { kind, lsn, timestamp_ms, current, previous, previous_lsn, .. } = change else {
            return;
        };
        self.text("{\"current\":");
        match current {
            Some(item) => item.write_json(&mut self.0),
            None => self.text("{}"),
        }
        if let Some(item) = previous {
            self.text(",\"previous\":");
            item.write_json(&mut self.0);
        }
        let name = match kind {
            ChangeKind::Create => "create",
            ChangeKind::Replace => "replace",
            ChangeKind::Delete | ChangeKind::Expire => "delete",
        };
        let seconds = current.map_or(timestamp_ms / 1000, |item| item.envelope().timestamp_seconds());
        self.text(&format!(",\"metadata\":{{\"operationType\":\"{name}\",\"lsn\":{lsn},\"crts\":{seconds}"));
        if let Some(previous_lsn) = previous_lsn {
            self.text(&format!(",\"previousImageLSN\":{previous_lsn}"));
        }
        if current.is_none() {
            let expired = kind == ChangeKind::Expire;
            self.text(&format!(",\"timeToLiveExpired\":{expired},\"id\":"));
            self.name(change);
        }
        self.text("}}");
    }

    /// The id and the partition key of the deleted item.
    fn name(&mut self, change: &Change<'_>) {
        let &Change::Version { id, partition_key, key_paths, .. } = change else { return };
        write_json_string(id, &mut self.0);
        self.text(",\"partitionKey\":{");
        for (place, (path, component)) in key_paths.iter().zip(&partition_key.0).enumerate() {
            if place > 0 {
                self.text(",");
            }
            write_json_string(&path.0.join("/"), &mut self.0);
            self.text(":");
            write_key_component(component, &mut self.0);
        }
        self.text("}");
    }

    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }
}
