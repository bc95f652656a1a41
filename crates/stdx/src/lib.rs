//! Base library of all crates: the time, randomness and identifiers, each real and simulated; the
//! free space of a disk; the hash and the order of texts that several crates share; the known name
//! closest to a misspelled one; binary formats; and activities, by which the process reports its progress.
//!
//! Nothing here knows a database term. The engine takes these as values, so that a test can replay
//! a run exactly; `clippy.toml` keeps the real sources out of every other crate.

mod activity;
mod clock;
pub mod codec;
mod commit_times;
mod disk;
mod duration_histogram;
mod hybrid_time;
mod murmur;
mod natural_order;
mod near_miss;
mod priority;
mod random;

pub use activity::Activity;
pub use clock::{Clock, Timestamp};
pub use commit_times::{CommitTimes, UnderWay};
pub use disk::{DiskSpace, disk_space, free_disk_bytes};
pub use duration_histogram::{DurationCounts, DurationHistogram};
pub use hybrid_time::HybridTime;
pub use murmur::{murmur3_32, murmur3_128, murmur3_128_seeded};
pub use natural_order::natural_order;
pub use near_miss::near_miss;
pub use priority::{lower_thread_priority, thread_processor_time};
pub use random::{Guid, Random};
