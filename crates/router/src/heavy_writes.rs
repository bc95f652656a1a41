//! Memory budget for heavy writes: bounds the memory of requests with large bodies, however many clients send them.
//!
//! Until it is stored, a body is in memory as text, as BSON, as the reply, as terms and as rows: some ten times its
//! size. So only a few megabytes of such bodies are processed at a time. A limited number of requests waits for memory;
//! the others are refused with a retry delay before any work is done. Small bodies pay one comparison.

use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_partition::{CpuPool, HEAVY_BYTES, Permit};

use crate::Serving;

/// Bytes of heavy bodies in progress at a time.
const BODIES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Requests that wait for memory, each with its body.
const WAITING_MAX: usize = 64;
const UNIT_BYTES: usize = 1024;

pub fn room() -> CpuPool {
    CpuPool::new((BODIES_BYTES_MAX / UNIT_BYTES) as u32, WAITING_MAX)
}

impl Serving {
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
