//! Room for the answer to a request, as a front end bounds it.
//!
//! An answer stays in memory until its client has taken it, so front ends bound the bytes of all of them. An operation that may
//! answer with a page takes room for one before it reads the first row of it, and after whatever else it waits for.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::Result;

pub type SpaceFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// The room of one request.
pub trait AnswerSpace: Debug + Send + Sync {
    /// Waits until the request has room for a page, behind those that asked before; at once where it has the room already.
    /// An error after `time`.
    fn take(&self, time: Duration) -> SpaceFuture<'_>;

    /// Waits likewise until there is such room, and takes none.
    fn wait(&self, time: Duration) -> SpaceFuture<'_>;

    /// Takes the room without waiting, and before those that wait: for operations that hold what others wait for.
    fn try_take(&self) -> bool;

    /// For a request that has no rows yet and waits for something else.
    fn give_back(&self);
}
