//! Memory for the answer to a request, as a front end limits it.
//!
//! An answer stays in memory until its client has read it, so front ends limit the bytes of all answers. An
//! operation that may answer with a page reserves space for one before it reads the first row of it, and
//! after all other waits.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::Result;

pub type SpaceFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// The answer space of one request.
pub trait AnswerSpace: Debug + Send + Sync {
    /// Waits until the request has space for a page, after earlier requests; returns at once if the request
    /// has the space already. Fails after `time`.
    fn take(&self, time: Duration) -> SpaceFuture<'_>;

    /// Waits like `take` until there is space, without reserving it.
    fn wait(&self, time: Duration) -> SpaceFuture<'_>;

    /// Takes the space without waiting, and before waiting requests: for operations that hold resources which
    /// others wait for.
    fn try_take(&self) -> bool;

    /// For a request that has no rows yet and waits for something else.
    fn give_back(&self);
}
