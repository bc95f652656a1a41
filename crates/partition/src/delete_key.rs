//! Deletes a logical partition item by item, in commits of a bounded number, so that other writers come in between.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_model::{ReplyMeta, Result};
use shardlake_routing::LogicalKey;
use shardlake_storage::ScanOptions;

use crate::commit::Writer;
use crate::core::Core;
use crate::deletion::{Deletion, ROWS_MAX, delete_found};
use crate::keys::{self, HEADER};
use crate::operation::CommandContext;
use crate::shape::ContainerSchema;

/// Items of one commit.
const ITEMS_PER_COMMIT: usize = 200;

/// Deletes every item that a logical partition has now, a bounded number per commit. Gives how many there were. Those whose time has
/// run out go too, as such, and cost nothing.
pub(crate) async fn delete_logical_partition(
    core: &Core,
    shape: &Arc<ContainerSchema>,
    command: &CommandContext,
    logical: &LogicalKey,
) -> Result<(u64, ReplyMeta)> {
    core.shard().check_writable().map_err(crate::storage_error)?;
    let (mut deleted, mut charge_centi) = (0, 0);
    // Items written behind the scan meanwhile stay: otherwise constant writes would keep the
    // deletion from ending.
    let mut next = keys::logical_prefix(core.uid, logical);
    let end = keys::after_prefix(&next);
    let writer = Writer::Passing(logical, command.patience);
    core.settle().await?;
    loop {
        core.check_open()?;
        let options = ScanOptions { limit: Some(ITEMS_PER_COMMIT), ..ScanOptions::default() };
        let mut scan = core.shard().snapshot().scan(next..end.clone(), options);
        let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? else {
            return Ok((deleted, core.meta(charge_centi.max(100), 0)));
        };
        drop(scan);
        let found: Arc<[Bytes]> = rows.into_iter().map(|(key, _)| key).collect();
        let deletion = Deletion { found, only_expired: false, upto: None, spares: None, rows_max: ROWS_MAX };
        let done = delete_found(core, shape, command.now, writer, &deletion).await?;
        let last = done.cut.unwrap_or(deletion.found.len()) - 1;
        next = keys::after_item(core.uid, &deletion.found[last][HEADER..]);
        deleted += done.live;
        charge_centi += done.live_centi;
    }
}
