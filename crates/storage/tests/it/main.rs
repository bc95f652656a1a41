//! The engines and the committer over them.
//!
//! One program for all files, because linking takes most of the time. `process.rs` runs this
//! program again as its children, with one test by name.

mod async_syncs;
mod commits;
#[cfg(feature = "object-storage")]
mod counted;
mod faults;
mod huge_batches;
mod journal;
mod kept;
mod large_commits;
mod local;
mod local_drops;
mod model;
#[cfg(feature = "object-storage")]
mod object;
#[cfg(feature = "object-storage")]
mod object_cache;
#[cfg(feature = "object-storage")]
mod object_circuit;
#[cfg(feature = "object-storage")]
mod object_clock;
#[cfg(feature = "object-storage")]
mod object_drops;
#[cfg(feature = "object-storage")]
mod object_ends;
#[cfg(feature = "object-storage")]
mod object_faults;
#[cfg(feature = "object-storage")]
mod object_holes;
#[cfg(feature = "object-storage")]
mod object_indexes;
#[cfg(feature = "object-storage")]
mod object_kept;
#[cfg(feature = "object-storage")]
mod object_starts;
mod process;
mod range_cache;
mod row_cache;
mod slow;
mod views;
#[cfg(feature = "object-storage")]
mod wal_archive;
#[cfg(feature = "object-storage")]
mod wal_copy;
mod write_back;
