//! Memory of requests: for the pages of answers, and for large bodies.
//!
//! A page reserves memory after all its other waits, and releases the memory before it waits again. A request
//! that waits for a permit or for a change therefore holds no memory that other requests need.
//!
//! Until it is stored, a body is in memory as text, as BSON, as the reply, as terms and as rows: some ten times its
//! size. So only a few megabytes of large bodies are processed at a time. A limited number of requests waits for memory;
//! the others are refused with a retry delay before any work is done. Small bodies pay one comparison.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{AnswerSpace, Error, ErrorKind, RequestContext, Result};
use shardlake_partition::{CpuPool, HEAVY_BYTES, Permit};

use crate::Serving;

/// Bytes of heavy bodies in progress at a time.
const BODIES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Requests that wait for memory, each with its body.
const WAITING_MAX: usize = 64;
const UNIT_BYTES: usize = 1024;

pub fn body_memory() -> CpuPool {
    CpuPool::new((BODIES_BYTES_MAX / UNIT_BYTES) as u32, WAITING_MAX)
}

impl Serving {
    /// Waits until the budget has memory for the request's next page, at most until the request's deadline.
    pub async fn take_answer_space(&self, ctx: &RequestContext) -> Result<()> {
        match &ctx.answer_space {
            Some(space) => space.take(ctx.deadline.saturating_sub(self.clock().elapsed())).await,
            None => Ok(()),
        }
    }

    /// Memory for a request with bodies of this total size, until it is dropped; `None` where they are small.
    /// A front end reserves it before it reads the bodies, and keeps it until they are written.
    pub async fn room_for(&self, ctx: &RequestContext, size_bytes: usize) -> Result<Option<Permit>> {
        if size_bytes <= HEAVY_BYTES {
            return Ok(None);
        }
        let time = ctx.deadline.saturating_sub(self.clock().elapsed());
        let turn = self.0.heavy_bodies.permit_of(size_bytes.div_ceil(UNIT_BYTES) as u32);
        match tokio::time::timeout(time, turn).await {
            Ok(turn) => turn.map(Some),
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                "other large requests were at work for as long as this one could wait: nothing was done, retry",
            )),
        }
    }
}

/// Waits for memory on behalf of a request that then waits for a scarce permit. No request waits for memory
/// while it holds a permit: otherwise one client that reads no answers would block the permits of all others.
pub async fn wait_for_space(space: Option<&Arc<dyn AnswerSpace>>, time: Duration) -> Result<()> {
    match space {
        Some(space) => space.wait(time).await,
        None => Ok(()),
    }
}

/// Reserves memory at once, for a request that holds its permit. Where other requests were faster, the
/// request waits for memory and a permit again.
pub fn try_take_space(space: Option<&Arc<dyn AnswerSpace>>) -> bool {
    space.is_none_or(|space| space.try_take())
}
