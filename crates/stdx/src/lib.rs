//! What every crate needs from outside the program: the time, randomness and identifiers, each real and simulated.
//!
//! Nothing here knows a database word. The engine takes these as values, so that a test can replay a run exactly;
//! `clippy.toml` keeps the real sources out of every other crate.

mod clock;
mod random;

pub use clock::{Clock, Timestamp};
pub use random::{Guid, Random};
