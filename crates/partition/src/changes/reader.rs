//! Reader of the change log: the writes to a part of a partition, in the order of the commits.

use serde::{Deserialize, Serialize};
use shardlake_model::Result;
use shardlake_routing::KeyRange;
use shardlake_stdx::Timestamp;
use shardlake_storage::{ScanOptions, Snapshot, View};

use crate::core::Core;
use crate::keys::{self, PartitionUid};
use crate::log::entries::{Entries, logged};
use crate::log::entry::LogEntry;

/// Entries of the log, without those that concern nothing in the span.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePage {
    pub entries: Vec<(u64, LogEntry)>,
    /// The last LSN that was looked at: the next page continues behind it.
    pub last_lsn: u64,
    /// Nothing durable lies behind it yet.
    pub is_last: bool,
}

/// Looks at up to `entries_max` durable entries above `after`. LSNs of the partitions that this
/// one was made of count, too: a reader that has followed one of them over `span` continues here
/// with the last LSN seen there.
pub(crate) async fn changes(
    core: &Core,
    span: &KeyRange,
    after: u64,
    entries_max: usize,
) -> Result<ChangePage> {
    let snapshot = core.shard().snapshot();
    core.check_open()?;
    let span = span.intersection(&core.epk_range);
    let (start, end) = (keys::item_key_bound_below(&span), keys::item_key_bound(&span));
    let is_inside = |key: &[u8]| key >= &start[..] && end.as_ref().is_none_or(|end| key < &end[..]);
    let options = ScanOptions { limit: Some(entries_max), ..ScanOptions::default() };
    // Read after the snapshot was taken: they hold for it.
    let marks = core.past.marks();
    let mut entries = Entries::behind(core.uid, &snapshot, marks, after, options);
    let mut page = ChangePage { last_lsn: after, ..ChangePage::default() };
    let mut looked_at = 0;
    loop {
        let some = entries.next(entries_max, usize::MAX).await?;
        if some.is_empty() {
            break;
        }
        looked_at += some.len();
        page.last_lsn = entries.last_lsn();
        let parts = some.into_iter().map(|(lsn, entry)| (lsn, entry.part(is_inside)));
        page.entries.extend(parts.filter(|(_, entry)| !entry.operations.is_empty()));
    }
    page.is_last = looked_at < entries_max;
    Ok(page)
}

/// Position of a partition at some point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionPosition {
    /// LSN of the last commit.
    pub lsn: u64,
    pub timestamp: Timestamp,
    pub items: u64,
    /// Size of the items as JSON.
    pub size_bytes: u64,
}

/// How far a partition had come when the view was made; `None` where nothing was ever written.
pub async fn position_of(view: &View, uid: PartitionUid) -> Result<Option<PartitionPosition>> {
    let last = last_entry(view, uid).await?;
    Ok(last.map(|(lsn, entry)| PartitionPosition {
        lsn,
        timestamp: Timestamp(entry.timestamp_ms()),
        items: entry.counters.items,
        size_bytes: entry.counters.size_bytes,
    }))
}

/// The last entry that a snapshot shows of a partition's log, and its LSN.
pub(crate) async fn last_entry(snapshot: &Snapshot, uid: PartitionUid) -> Result<Option<(u64, LogEntry)>> {
    let (start, end) = keys::space_range(uid, keys::CHANGE_LOG);
    let options = ScanOptions { reverse: true, limit: Some(1), ..ScanOptions::default() };
    let mut scan = snapshot.scan(start..end, options);
    let last = scan.next_chunk().await.map_err(crate::storage_error)?.into_iter().flatten().next();
    last.map(|(key, value)| logged(&key, &value)).transpose()
}

/// The first entry of a partition's log from an LSN on.
pub(crate) async fn first_entry_from(
    core: &Core,
    snapshot: &Snapshot,
    lsn: u64,
) -> Result<Option<(u64, LogEntry)>> {
    let (_, end) = keys::space_range(core.uid, keys::CHANGE_LOG);
    let options = ScanOptions { limit: Some(1), ..ScanOptions::default() };
    let mut scan = snapshot.scan(keys::log_key(core.uid, lsn)..end, options);
    let row = scan.next_chunk().await.map_err(crate::storage_error)?.into_iter().flatten().next();
    row.map(|(key, value)| logged(&key, &value)).transpose()
}

/// Time of the first commit above an LSN; `None` where there is none.
pub(crate) async fn time_above(core: &Core, lsn: u64) -> Result<Option<Timestamp>> {
    let view = core.shard().snapshot();
    core.check_open()?;
    let first = first_entry_from(core, &view, lsn.saturating_add(1)).await?;
    Ok(first.map(|(_, entry)| Timestamp(entry.timestamp_ms())))
}
