//! Removes items whose time to live has run out where a logical partition is full, so that they are not in the way of others.
//!
//! Clients see such items as gone, so they could not make the room themselves. A write that is refused for want of room looks
//! through a bounded number of items, goes on where the last look ended, and is tried again when something went.

use std::sync::Arc;

use shardlake_model::{ErrorKind, Result};
use shardlake_storage::{LARGE_ROWS_IN_FLIGHT, ScanOptions};

use crate::change_log::ChangeKind;
use crate::interactive::WriteTurn;
use crate::item::StoredItem;
use crate::keys::{self, HEADER};
use crate::operation::{BatchReply, CommandContext, LogicalKey};
use crate::partition::Partition;
use crate::shape::ContainerShape;

/// Items that one look reads.
const ITEMS_READ_MAX: usize = 500;
/// Rows of the index that one look takes away, unless they are of one item: writers of the partition wait for them.
pub(crate) const ROWS_OF_ROOM: usize = LARGE_ROWS_IN_FLIGHT;
/// Looks of one write, as long as each finds something.
pub(crate) const LOOKS_MAX: usize = 8;

/// Whether an operation failed because its logical partition is full.
pub(crate) fn is_full(reply: &BatchReply) -> bool {
    let failure = reply.outcome.as_ref().err();
    failure.is_some_and(|failure| failure.error.kind() == ErrorKind::LogicalPartitionFull)
}

impl Partition {
    /// One look. Says whether anything went.
    pub(crate) async fn make_room(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
    ) -> Result<bool> {
        let sequencer = self.turn_to_write(logical, command.patience, ROWS_OF_ROOM).await?;
        self.make_room_in(sequencer, shape, command, logical).await
    }

    /// The same for whoever may write to the logical partition.
    pub(crate) async fn make_room_in(
        &self,
        mut sequencer: WriteTurn<'_>,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
    ) -> Result<bool> {
        self.check_open()?;
        if !sequencer.may_expire(shape) {
            return Ok(false);
        }
        // With every queued commit acknowledged, a snapshot alone shows the logical partition.
        self.drain(&mut sequencer).await?;
        let prefix = keys::logical_prefix(self.uid, logical);
        let end = keys::after_prefix(&prefix);
        let goes_on = sequencer.room_sought_to.take().filter(|key| key.starts_with(&prefix));
        let options = ScanOptions { limit: Some(ITEMS_READ_MAX), ..ScanOptions::default() };
        let mut scan = self.shard().snapshot().scan(goes_on.unwrap_or(prefix)..end, options);
        let turn = sequencer.take_turn();
        let mut transaction = self.transaction(&sequencer, shape, command.now);
        let (mut read, mut last) = (0, None);
        'looking: while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, value) in rows {
                let item = StoredItem::decode(value, shape)?;
                if item.is_expired(command.now.seconds()) {
                    let (_, id) = keys::parse_item_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
                    transaction.delete(logical, id, &item, ChangeKind::Expire).await?;
                }
                read += 1;
                last = Some(key);
                if transaction.postings() >= ROWS_OF_ROOM {
                    read = ITEMS_READ_MAX;
                    break 'looking;
                }
            }
        }
        let found = transaction.changes_anything();
        let commit = match found {
            true => {
                transaction.record_size().await?;
                let lsn = transaction.lsn;
                let planned = transaction.into_batch();
                Some((lsn, self.queue(&mut sequencer, lsn, planned, turn)?))
            }
            false => None,
        };
        // At the end of the logical partition the next look begins at its start.
        if let Some(last) = last.filter(|_| read == ITEMS_READ_MAX) {
            sequencer.room_sought_to = Some(keys::after_item(self.uid, &last[HEADER..]));
        }
        drop(sequencer);
        if let Some((lsn, commit)) = commit {
            self.acknowledge(lsn, commit).await?;
        }
        Ok(found)
    }
}
