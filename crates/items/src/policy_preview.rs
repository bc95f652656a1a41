//! Preview of a container's costs under another indexing policy, from a sample of its items.

use shardlake_model::{IndexingPolicy, RequestContext, Result};
use shardlake_partition::{PolicyFigures, policy_figures};
use shardlake_router::ContainerHandle;

use crate::Items;

#[derive(Debug, Clone)]
pub struct PolicyPreview {
    pub sampled: u64,
    pub now: PolicyFigures,
    pub then: PolicyFigures,
    /// Items and bytes that a new generation of the index is filled from; zero where the policies are the same.
    pub rebuild: (u64, u64),
}

impl Items {
    /// `policy` as a client wrote it; a mistake in it is returned as an error.
    pub async fn preview_policy(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        policy: IndexingPolicy,
        count: usize,
    ) -> Result<PolicyPreview> {
        let policy = policy.normalise(self.router().limits())?;
        let entry = self.router().current_entry(&container.entry)?;
        let sample = self.sample(ctx, container, count).await?;
        let usage = container.usage();
        let is_other = entry.record.container.definition.indexing_policy != policy;
        let charges = self.router().charges().clone();
        let compute = move || {
            let figures = |paths| policy_figures(&sample.items, paths, &charges);
            PolicyPreview {
                sampled: sample.items.len() as u64,
                now: figures(&entry.shape.indexed_paths),
                then: figures(&policy.matcher()),
                rebuild: if is_other { (usage.items, usage.size_bytes) } else { (0, 0) },
            }
        };
        shardlake_partition::offload(compute).await
    }
}
