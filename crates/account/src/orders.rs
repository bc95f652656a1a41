//! An operator's queries and orders to an account, delegated to its background maintenance.

use std::time::Duration;

use shardlake_backup::Backups;
use shardlake_capacity::policy::NextStep;
use shardlake_catalog::ProjectionRule;
use shardlake_maintenance::{
    AccountPulse, ContainerLoad, ContainerReport, HeatMap, HeatMapRequest, KeyReport, PulseSpan,
    RelocationTicket, SplitAt,
};
use shardlake_model::{Offer, PartitionKey, RequestContext, Result};
use shardlake_projections::{ProjectionPut, ProjectionReport};
use shardlake_router::{ContainerHandle, Earlier, PastRelocation, RelocationKind, ThroughputReport};

use crate::Account;
use crate::expiry;

impl Account {
    /// Cuts a range in two.
    pub async fn split(
        &self,
        container: &ContainerHandle,
        range_id: u32,
        at: SplitAt,
    ) -> Result<RelocationTicket> {
        self.0.upkeep.split(container, range_id, at).await
    }

    /// Joins neighbouring ranges.
    pub async fn merge(&self, container: &ContainerHandle, range_ids: &[u32]) -> Result<RelocationTicket> {
        self.0.upkeep.merge(container, range_ids).await
    }

    /// Has a range stored on another shard.
    pub async fn move_partition(
        &self,
        container: &ContainerHandle,
        range_id: u32,
        shard: u16,
    ) -> Result<RelocationTicket> {
        self.0.upkeep.move_partition(container, range_id, shard).await
    }

    /// Aborts the relocation of a container and drops its copies. Returns whether there was one.
    pub async fn abort_relocation(&self, container: &ContainerHandle) -> Result<bool> {
        self.0.upkeep.abort_relocation(container).await
    }

    /// Heat over time and the hash space, also of ended partitions.
    pub fn heat_map(&self, container: &ContainerHandle, request: &HeatMapRequest) -> Result<HeatMap> {
        self.0.upkeep.heat_map(container, request)
    }

    /// Passes the heat of every container with its resource id to `keep`, for storage, until `keep` returns false.
    pub fn keep_heat(&self, keep: impl FnMut(&str, &Earlier) -> bool) {
        self.0.upkeep.keep_heat(keep);
    }

    /// Takes over the heat that an earlier process stored for a container; returns whether the container exists.
    pub fn recall_heat(&self, rid: &str, earlier: Earlier) -> bool {
        self.0.upkeep.recall_heat(rid, earlier)
    }

    /// Where a logical partition is, how large, and how much of the load is its.
    pub async fn key_report(&self, container: &ContainerHandle, key: &PartitionKey) -> Result<KeyReport> {
        self.0.upkeep.key_report(container, key).await
    }

    /// The request units of all containers over time, and of the busiest ones.
    pub fn pulse(&self, span: PulseSpan, containers_max: usize) -> AccountPulse {
        self.0.upkeep.pulse(span, containers_max)
    }

    /// Relocations that have ended, the oldest first, and the clock's elapsed time for comparison.
    pub fn past_relocations(&self, container: &ContainerHandle) -> Vec<PastRelocation> {
        container.entry.history.past().relocations.iter().cloned().collect()
    }

    /// Kind, how many were done, how many given up, since the start.
    pub fn relocation_counts(&self) -> [(RelocationKind, u64, u64); 3] {
        self.0.upkeep.relocation_counts()
    }

    /// The next step of the policy for a container.
    pub async fn next_step_of(&self, container: &ContainerHandle) -> Result<NextStep> {
        self.0.upkeep.next_step_of(container).await
    }

    /// Whether partitions are still being cut for a throughput that was set.
    pub async fn is_throughput_pending(&self, offer: &Offer) -> Result<bool> {
        self.0.upkeep.is_throughput_pending(offer).await
    }

    /// The ranges that are being cut, or are cut next because of their size or throughput.
    pub async fn ranges_being_split(&self, container: &ContainerHandle) -> Result<Vec<u32>> {
        self.0.upkeep.ranges_being_split(container).await
    }

    /// `window` is how far back the load goes.
    pub async fn container_report(
        &self,
        container: &ContainerHandle,
        window: Duration,
    ) -> Result<ContainerReport> {
        self.0.upkeep.container_report(container, window).await
    }

    /// Loads of every container.
    pub fn loads(&self, window: Duration) -> Vec<ContainerLoad> {
        self.0.upkeep.loads(window)
    }

    /// Removes the expired items of a container now and without rest. Returns the number of items
    /// removed. For tests and tools: clients never see expired items.
    pub async fn purge_expired(&self, container: &ContainerHandle) -> Result<u64> {
        self.0.upkeep.purge_expired(container).await
    }

    /// Removes all documents that an index with `expireAfterSeconds` has expired, now and without
    /// rest; returns their number. The server does so by itself every minute.
    pub async fn expire_documents(&self) -> u64 {
        expiry::expire_all(self.collections()).await
    }

    /// Compacts every change log as far as possible now. The server does so by itself, a little at a time.
    pub async fn compact_change_logs(&self) -> Result<u64> {
        self.0.upkeep.compact_change_logs().await
    }

    /// Creates a projection, or replaces the rule of one, which then begins anew.
    pub async fn put_projection(&self, ctx: &RequestContext, rule: ProjectionRule) -> Result<ProjectionPut> {
        self.0.projections.put_projection(ctx, rule).await
    }

    pub async fn delete_projection(&self, id: &str) -> Result<()> {
        self.0.projections.delete_projection(id).await
    }

    /// Stops a projection between two steps, until it is resumed; a restart does not resume it.
    pub async fn pause_projection(&self, id: &str) -> Result<()> {
        self.0.projections.pause_projection(id).await
    }

    pub async fn resume_projection(&self, id: &str) -> Result<()> {
        self.0.projections.resume_projection(id).await
    }

    /// Every projection, in the order of their ids.
    pub async fn projections(&self) -> Vec<ProjectionReport> {
        self.0.projections.projections().await
    }

    pub async fn projection(&self, id: &str) -> Result<ProjectionReport> {
        self.0.projections.projection(id).await
    }

    /// States that are kept while clients copy them to a backup.
    pub fn backups(&self) -> &Backups {
        &self.0.backups
    }

    /// How a container's budgets stand now.
    pub fn throughput_of(&self, container: &ContainerHandle) -> ThroughputReport {
        self.0.script_runs.throughput_of(container)
    }

    /// Gives named partitions shares of their own in RU/s; the others keep theirs, and the sum must stay the container's
    /// throughput. No shares at all mean equal ones again.
    pub async fn redistribute(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        shares: &[(u32, u64)],
    ) -> Result<ContainerHandle> {
        self.0.script_runs.redistribute(ctx, container, shares).await
    }

    /// Like [`Account::redistribute`], but the sum becomes the container's throughput.
    pub async fn redistribute_and_resize(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        shares: &[(u32, u64)],
    ) -> Result<ContainerHandle> {
        self.0.script_runs.redistribute_and_resize(ctx, container, shares).await
    }
}
