//! Removes items whose time to live has run out where a logical partition is full, so that they are not in the way of others.
//!
//! Clients do not see such items, so they could not make the room themselves. A write that is
//! refused for lack of space looks through a bounded number of items, continues where the last look
//! ended, and is tried again when an item was removed.
//!
//! Where a container has bounds, the oldest items make the room (`write/trim.rs`).

use std::sync::Arc;

use bytes::Bytes;
use shardlake_document::Record;
use shardlake_model::{ErrorKind, Result};
use shardlake_routing::LogicalKey;
use shardlake_stdx::Timestamp;
use shardlake_storage::ScanOptions;

use crate::commit::{Done, Task, Work, Writer, acknowledge, carry_out};
use crate::core::Core;
use crate::deletion::{Deletion, ROWS_MAX, delete_found};
use crate::keys::{self, HEADER};
use crate::operation::CommandContext;
use crate::origin::Origin;
use crate::read_set::{Plan, ReadSet, Stop};
use crate::shape::ContainerSchema;
use crate::sizes::LogicalSize;
use crate::write::{PlannedCommit, Transaction};

/// Items that one look reads.
const ITEMS_READ_MAX: usize = 500;
/// Looks of one write, as long as each finds something.
pub(crate) const LOOKS_MAX: usize = 8;

/// One look. Returns whether it found any item to remove: another task may have been quicker to
/// remove it.
pub(crate) async fn reclaim_space(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    command: &CommandContext,
    logical: &LogicalKey,
    writer: Writer<'_>,
) -> Result<bool> {
    let prefix = keys::logical_prefix(core.uid, logical);
    let (end, goes_on) = (keys::after_prefix(&prefix), {
        let mut sequencer = core.sequencer.hold().await;
        core.check_open()?;
        if !sequencer.may_expire(shape) {
            return Ok(false);
        }
        sequencer.room_sought_to.take().filter(|key| key.starts_with(&prefix))
    });
    core.settle().await?;
    let options = ScanOptions { limit: Some(ITEMS_READ_MAX), ..ScanOptions::default() };
    let mut scan = core.shard().snapshot().scan(goes_on.unwrap_or(prefix)..end, options);
    let (mut read, mut last, mut found) = (0, None, Vec::new());
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        read += rows.len();
        last = rows.last().map(|(key, _)| key.clone());
        for (key, value) in rows {
            let item = Record::decode(&value).map_err(crate::corrupt)?.envelope;
            if shape.is_expired(item.timestamp_seconds(), item.ttl_seconds, command.now.seconds()) {
                found.push(key);
            }
        }
    }
    drop(scan);
    // At the end of the logical partition the next look begins at its start.
    let mut sought_to = last.filter(|_| read == ITEMS_READ_MAX);
    let is_any = !found.is_empty();
    if is_any {
        let deletion = Deletion {
            found: found.into(),
            only_expired: true,
            upto: None,
            spares: None,
            rows_max: ROWS_MAX,
        };
        let deleted = delete_found(core, shape, command.now, writer, &deletion).await?;
        if let Some(cut) = deleted.cut {
            sought_to = Some(deletion.found[cut - 1].clone());
        }
    }
    if let Some(last) = sought_to {
        let next = keys::after_item(core.uid, &last[HEADER..]);
        core.sequencer.hold().await.room_sought_to = Some(next);
    }
    Ok(is_any)
}

/// Removes the oldest items, and writes nothing.
#[derive(Debug, Clone)]
struct Trim {
    logical: LogicalKey,
    room_for: LogicalSize,
}

impl Work for Trim {
    /// Whether nothing more has to go.
    type Outcome = (bool, Option<PlannedCommit>);

    fn plan(&self, mut transaction: Transaction<'_>) -> Plan<Self::Outcome> {
        let is_within = match transaction.trim(&self.logical, self.room_for) {
            // No removal makes room for such items.
            Err(Stop::Error(error)) if error.kind() == ErrorKind::TooLarge => true,
            trimmed => trimmed?.is_within,
        };
        transaction.record_size()?;
        let changes = transaction.changes_anything();
        Ok((is_within, changes.then(|| transaction.into_batch())))
    }

    fn owned(&self) -> impl Work<Outcome = Self::Outcome> + Send + 'static {
        self.clone()
    }

    fn footprint(&self, origin: Origin, _shape: &ContainerSchema) -> Vec<Bytes> {
        vec![keys::size_key(origin.uid, &self.logical).into()]
    }
}

/// One commit towards room for items of this size in a logical partition. Returns whether another
/// commit has to follow.
pub(crate) async fn trim_for(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    now: Timestamp,
    (logical, room_for): (&LogicalKey, LogicalSize),
    writer: Writer<'_>,
) -> Result<bool> {
    let task = Task {
        shape,
        now,
        is_decided: false,
        writer,
        is_clients: false,
        rows: 0,
        is_heavy: false,
        base: None,
    };
    let work = Trim { logical: logical.clone(), room_for };
    let Done { outcome, commit, .. } = carry_out(core, task, ReadSet::default(), &work).await?;
    if let Some((lsn, commit)) = commit {
        acknowledge(core, lsn, commit).await?;
    }
    Ok(!outcome)
}
