//! Writes of functions on the change feed: each once, although a batch of changes may be worked on again.
//!
//! A commit stores, with the writes, how far in its source the function has come. That progress is carried
//! by splits, merges and moves, so that a task that continues knows which writes are there.
//!
//! | file | content |
//! |---|---|
//! | `batch.rs` | writes and their answer, as data |
//! | `progress.rs` | progress as it is stored, read, carried and deleted |
//! | `apply.rs` | one commit of writes to many logical partitions with its progress |

mod apply;
mod batch;
mod progress;
#[cfg(test)]
mod tests;

pub(crate) use apply::apply_function;
pub use batch::{
    FunctionBatch, FunctionOperation, FunctionOutcome, FunctionReply, FunctionWrite, RefusedWrite,
};
pub use progress::FunctionProgress;
#[cfg(feature = "testing")]
pub(crate) use progress::described;
pub(crate) use progress::{carried, forget, read_all};
