//! Recorded histories of concurrent clients, and a check whether such a history is possible.
//!
//! Clients record every operation in a [`Recorder`]: the time of the request, the time of the
//! answer (by one counter that all share, not by a clock) and the answer's content. [`check`] then
//! searches, for every logical partition, for one order of the operations in which each of them
//! takes effect at one point between its request and its answer, and in which every answer follows
//! from that order. If there is none, a client saw an impossible state: a stale read, a lost write,
//! half a batch.
//!
//! `record.rs` is the notebook, `model.rs` defines the effect of one operation on a logical
//! partition, and `search.rs` searches for the order. Nothing here knows how an operation reached
//! the database, so the same check serves the engine and the wire.

mod model;
mod record;
mod search;
#[cfg(test)]
mod tests;

pub use model::{Action, Answer, Failure, Guard, Reply, SeenItem};
pub use record::{Call, Pending, Recorder};
pub use search::{Verdict, check, check_with_bound};
