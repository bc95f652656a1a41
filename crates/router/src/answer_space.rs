//! Memory budget for answers, reserved where pages are made.
//!
//! A page reserves memory after all its other waits, and releases the memory before it waits again. A request
//! that waits for a permit or for a change therefore holds no memory that other requests need.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{AnswerSpace, RequestContext, Result};

use crate::Serving;

impl Serving {
    /// Waits until the budget has memory for the request's next page, at most until the request's deadline.
    pub async fn take_answer_space(&self, ctx: &RequestContext) -> Result<()> {
        match &ctx.answer_space {
            Some(space) => space.take(ctx.deadline.saturating_sub(self.clock().elapsed())).await,
            None => Ok(()),
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
