//! States of an account that are kept for as long as somebody copies them: what a running server does for a backup.
//!
//! | file | what it does |
//! |---|---|
//! | `states.rs` | keeps a state of all shards at one moment, hands out its files, and drops it when nobody asks any more |
//! | `describe.rs` | what partitions a moment has, and how far each had come |
//!
//! Nothing is copied here and nothing leaves the data directory: the files of a state are links beside the shards, and
//! whoever makes the backup asks for them piece by piece. What a backup is, and where it lies, is known to the client alone.

mod describe;
mod states;

pub use describe::{Moment, MomentOfPartition, describe};
pub use states::{Backups, KeptState, PIECE_BYTES_MAX};
