//! Room for answers, asked for where pages are made.
//!
//! A page takes its room after everything else that it waits for, and gives it back before it waits again: who waits for a turn or
//! for a change holds no memory, and must not keep it from others.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{AnswerSpace, RequestContext, Result};

use crate::Serving;

impl Serving {
    /// Waits until there is room for the page that the request is about to make, no longer than the request may.
    pub async fn take_answer_space(&self, ctx: &RequestContext) -> Result<()> {
        match &ctx.answer_space {
            Some(space) => space.take(ctx.deadline.saturating_sub(self.clock().elapsed())).await,
            None => Ok(()),
        }
    }
}

/// Waits until there is such room, for a request that then waits for its turn at something scarce. Nobody waits for room while
/// holding a turn, or one client that takes no answers would stop the turns of all others.
pub async fn wait_for_space(space: Option<&Arc<dyn AnswerSpace>>, time: Duration) -> Result<()> {
    match space {
        Some(space) => space.wait(time).await,
        None => Ok(()),
    }
}

/// Takes room at once, for a request whose turn it is. Where others were faster, it waits for room and a turn again.
pub fn try_take_space(space: Option<&Arc<dyn AnswerSpace>>) -> bool {
    space.is_none_or(|space| space.try_take())
}
