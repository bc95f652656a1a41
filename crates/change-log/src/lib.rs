//! Follower of a container's change log, through splits, merges and moves, for derived data such as projections.
//!
//! | file | contents |
//! |---|---|
//! | `position.rs` | [`LogPosition`]: parts of the hash space, each up to an LSN |
//! | `follower.rs` | [`LogFollower`]: rounds, or pages, of one part after the other; waiting for more |
//! | `written.rs` | the items that changes record as written |
//! | `lag.rs` | how far a position is behind, and whether it has reached another |
//! | `at_least.rs` | the least that a reader asks for, as a position |
//!
//! A follower reads a container by parts of its hash space. Ranges may change under a part: a part over
//! several ranges is divided before it is read; level neighbours are joined, so that there are as many parts
//! as ranges.
//!
//! ```text
//! position → LogFollower::open → next_round → … apply the round … → Round::durable → done → position, to be stored
//!                                  └─ End → look_again, wait ┘
//! ```
//! The caller keeps the log with a hold (`shardlake_router`), which it moves behind its stored position. A
//! position may be stored once the effects that it counts are durable.

mod at_least;
mod follower;
mod lag;
mod position;
mod written;

pub use at_least::AtLeast;
pub use follower::{Followed, FollowerPage, LogFollower, Needs, NextPage, NextRound, PartRound, changed};
pub use lag::{Lag, has_reached, has_reached_lsns, lag, oldest_missing_ms};
pub use position::{LogPart, LogPosition};
pub use written::written;
