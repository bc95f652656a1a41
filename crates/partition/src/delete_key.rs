//! Deletes a logical partition item by item, in commits of a bounded number, so that other writers come in between.

use std::sync::Arc;

use shardlake_model::{ReplyMeta, Result};
use shardlake_storage::{LARGE_ROWS_IN_FLIGHT, ScanOptions};

use crate::apply::system_terms;
use crate::change_log::ChangeKind;
use crate::heavy::charged_terms;
use crate::item::StoredItem;
use crate::keys;
use crate::operation::{CommandContext, LogicalKey};
use crate::partition::Partition;
use crate::shape::ContainerShape;

impl Partition {
    /// Deletes every item that a logical partition has now, a bounded number per commit. Gives how many there were. Those whose time has
    /// run out go too, as such, and cost nothing.
    pub async fn delete_logical_partition(
        &self,
        shape: &Arc<ContainerShape>,
        command: &CommandContext,
        logical: &LogicalKey,
    ) -> Result<(u64, ReplyMeta)> {
        const ITEMS_PER_COMMIT: usize = 200;
        let mut deleted = 0;
        let mut charge_centi = 0;
        // What is written behind it meanwhile stays: else writers that go on would keep this going on.
        let mut next = keys::logical_prefix(self.uid, logical);
        let end = keys::after_prefix(&next);
        loop {
            let mut sequencer = self.turn_to_write(logical, command.patience, LARGE_ROWS_IN_FLIGHT).await?;
            self.check_open()?;
            // With every queued commit acknowledged, a snapshot alone shows the logical partition.
            self.drain(&mut sequencer).await?;
            let options = ScanOptions { limit: Some(ITEMS_PER_COMMIT), ..ScanOptions::default() };
            let mut scan = self.shard().snapshot().scan(next.clone()..end.clone(), options);
            let (mut items, mut is_last) = (0, true);
            let turn = sequencer.take_turn();
            let mut transaction = self.transaction(&sequencer, shape, command.now);
            'planning: while let Some(chunk) = scan.next_chunk().await.map_err(crate::storage_error)? {
                for (key, value) in chunk {
                    if transaction.postings() >= LARGE_ROWS_IN_FLIGHT {
                        is_last = false;
                        break 'planning;
                    }
                    next = keys::after_item(self.uid, &key[keys::HEADER..]);
                    items += 1;
                    let item = StoredItem::decode(value, shape)?;
                    let (_, id) =
                        keys::parse_item_key(&key[keys::HEADER..]).ok_or_else(crate::malformed_key)?;
                    if item.is_expired(command.now.seconds()) {
                        transaction.delete(logical, id, &item, ChangeKind::Expire).await?;
                        continue;
                    }
                    let terms = charged_terms(&item, shape).await?.len() + system_terms(shape);
                    charge_centi += shape.charges.delete(item.json_size_bytes(), terms).0;
                    transaction.delete(logical, id, &item, ChangeKind::Delete).await?;
                    deleted += 1;
                }
            }
            if transaction.changes_anything() {
                transaction.record_size().await?;
                let lsn = transaction.lsn;
                let planned = transaction.into_batch();
                let commit = self.queue(&mut sequencer, lsn, planned, turn)?;
                drop(sequencer);
                self.acknowledge(lsn, commit).await?;
            }
            if is_last && items < ITEMS_PER_COMMIT {
                return Ok((deleted, self.meta(charge_centi.max(100), 0)));
            }
        }
    }
}
