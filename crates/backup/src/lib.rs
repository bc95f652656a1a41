//! States of an account that are kept while a client copies them: the server's part of a backup.
//!
//! | file | contents |
//! |---|---|
//! | `states.rs` | keeps a state of all shards at one point in time, hands out its files, and drops it when no client asks any more |
//! | `describe.rs` | the partitions of a state, and the progress of each |
//!
//! Nothing is copied here and nothing leaves the data directory: the files of a state are links
//! next to the shards, and the client that makes the backup asks for them piece by piece. Only the
//! client knows the backup's form and its place.

mod describe;
mod last;
mod states;

pub use describe::{Moment, MomentOfPartition, describe};
pub use last::{BackupOutcome, EndedBackup, LastBackups};
pub use states::{Backups, KeptState, PIECE_BYTES_MAX};
