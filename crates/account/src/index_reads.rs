//! Reads of global secondary indexes that wait for writes of their source, for all front ends.

use shardlake_copies::AtLeast;
use shardlake_model::{IndexReads, RequestContext, Result};
use shardlake_router::ContainerHandle;

use crate::Account;

impl Account {
    /// Waits until an index has the writes that a read asks for, or that its setting `reads` asks for. Containers that are no index,
    /// and reads that ask for nothing, are not waited for. Waiting takes one of the places of waiting readers of change feeds. Returns
    /// whether it waited.
    pub async fn wait_for_index(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        asked: Option<AtLeast>,
    ) -> Result<bool> {
        let rid = container.entry.record.container.rid;
        let reads = {
            let live = self.router().catalog().load();
            let Some(record) = live.definitions.secondary_indexes.get(&rid) else { return Ok(false) };
            record.settings.reads
        };
        let at_least = asked.or((reads == IndexReads::CaughtUp).then_some(AtLeast::Now));
        let Some(at_least) = at_least else { return Ok(false) };
        let Some(mut awaited) = self.copies().awaited(rid, at_least)? else { return Ok(false) };
        if awaited.is_there().await? {
            return Ok(false);
        }
        let _place = self.items().waiting_place()?;
        let left = ctx.deadline.saturating_sub(self.router().clock().elapsed());
        awaited.wait(left, || self.items().waiting_is_over()).await?;
        Ok(true)
    }
}
