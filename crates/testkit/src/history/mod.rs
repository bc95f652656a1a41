//! Was what concurrent clients saw possible at all? Recorded histories, and a check of them.
//!
//! Clients write down every operation in a [`Recorder`]: when they asked, when they were answered (by one counter that
//! all share, not by a clock) and what the answer said. [`check`] then looks, for every logical partition, for one order of
//! the operations in which each of them takes effect at one moment between its question and its answer, and in which every
//! answer is what that order implies. If there is none, somebody saw something that never was: a stale read, a lost write,
//! half a batch.
//!
//! `record.rs` is the notebook, `model.rs` says what one operation does to a logical partition, and `search.rs` looks for
//! the order. Nothing here knows how an operation reached the database, so the same check serves the engine and the wire.

mod model;
mod record;
mod search;
#[cfg(test)]
mod tests;

pub use model::{Action, Answer, Failure, Guard, Reply, SeenItem};
pub use record::{Call, Pending, Recorder};
pub use search::{Verdict, check, check_with_bound};
