//! Items of one logical partition in the order of their creation, page by page, and waiting for the next.

use std::sync::Arc;
use std::time::Duration;

use shardlake_host::{ReadInOrder, Trim};
use shardlake_model::{PartitionKey, RequestContext, Result};
use shardlake_partition::{InsertionPage, InsertionPosition, StoredItem};

use crate::Items;
use crate::change_feed::any_changed;
use shardlake_router::{ContainerEntry, ContainerHandle, key_of_read};

/// One page of the physical partition that has the logical partition. `max_items` is the caller's wish: `None` for the
/// server's choice.
pub async fn read_in_order(
    items: &Items,
    ctx: &RequestContext,
    container: &ContainerHandle,
    key: &PartitionKey,
    position: InsertionPosition,
    max_items: Option<u32>,
) -> Result<InsertionPage> {
    items.router().take_answer_space(ctx).await?;
    let limits = items.page_limits(Some(max_items.map_or(-1, i64::from)))?;
    let logical = key_of_read(container, Some(key))?;
    items
        .router()
        .send(ctx, container, &logical, &ReadInOrder { key: logical.clone(), position, limits })
        .await
}

/// The charge of a page.
pub fn charge_in_order(items: &Items, page: &InsertionPage, ctx: &RequestContext) -> u64 {
    let sizes = page.items.iter().map(StoredItem::json_size_bytes);
    items.0.router.charges().feed_page(sizes, ctx.consistency).0
}

/// Waits until the partition of a page has a newer item than the page or ends, or the time is over.
pub async fn wait_in_order(
    items: &Items,
    container: &Arc<ContainerEntry>,
    key: &PartitionKey,
    lsn: u64,
    time_max: Duration,
) -> Result<()> {
    let container = ContainerHandle { entry: container.clone(), by_rid: false };
    let logical = key_of_read(&container, Some(key))?;
    let routing = items.router().routing(&container);
    any_changed(vec![(routing.owner(&logical), lsn)], time_max).await;
    Ok(())
}

/// Removes the oldest items until the logical partition is within the bounds of its container.
pub async fn trim(
    items: &Items,
    ctx: &RequestContext,
    container: &ContainerHandle,
    key: &PartitionKey,
    patience: Duration,
) -> Result<()> {
    let logical = key_of_read(container, Some(key))?;
    let trim = Trim { key: logical.clone(), patience };
    while items.router().send(ctx, container, &logical, &trim).await? {}
    Ok(())
}
