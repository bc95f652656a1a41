//! The plan of a query without running it: nothing is read, nothing is charged, nothing is counted as load.

use std::time::Duration;

use shardlake_model::{RequestContext, Result};
use shardlake_router::ContainerHandle;

use crate::Queries;
use crate::figures::RangeFigures;
use crate::query::hash_of;
use crate::query_cache::Asked;
use crate::query_targets::targets;
use crate::request::{QueryReply, QueryRequest};

impl Queries {
    /// A reply without rows, whose figures name the ranges that would be asked.
    pub fn explain(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: &QueryRequest<'_>,
    ) -> Result<QueryReply> {
        let started = self.router().clock().elapsed();
        let entry = &self.router().current_entry(&container.entry)?;
        let query = self.parsed(request.text, request.parameters)?;
        let hash = hash_of(request.text, request.parameters);
        let known = self.known(ctx, entry, Asked { query: &query, parameters: request.parameters, hash })?;
        let targets = targets(entry, request, || Ok(known.plan(entry)?))?;
        let running = self.prepare(ctx, entry, &known, &targets.parts)?;
        let mut reply = running.begin(request.wants, &query, &targets.parts)?;
        if let Some(figures) = &mut reply.figures {
            let of_part = |range_id: u32| RangeFigures { range_id, ..RangeFigures::default() };
            figures.ranges = targets.parts.iter().map(|part| of_part(part.partition.range_id())).collect();
            figures.merges = targets.merges;
        }
        reply.preparation = self.router().clock().elapsed().saturating_sub(started);
        reply.execution = Duration::ZERO;
        Ok(reply)
    }
}
