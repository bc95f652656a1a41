//! Follower of a container's change log, through splits, merges and moves, for derived data such as projections.
//!
//! | file | contents |
//! |---|---|
//! | `follower.rs` | [`Follower`]: a page of changes at a time, a checkpoint, waiting for more |
//! | `written.rs` | the items that a page records as written |
//! | `lag.rs` | how far a checkpoint is behind |
//!
//! A follower reads a container by parts of its hash space, each up to some LSN. Ranges may change under a
//! part: LSNs remain valid in the ranges that replace another, for the same span. A part over several ranges
//! is divided before it is read; level neighbours are joined, so that there are as many parts as ranges.
//!
//! ```text
//! checkpoint → Follower::new → read → … process the page … → done → checkpoint, to be stored
//!                               └─ End → look_again, changed(followed) ┘
//! ```
//! The page names the keys of items, not their bodies: the caller reads the newest version, so that repeating
//! a page does no harm. A checkpoint may be stored once the effects that it counts are durable.

mod follower;
mod lag;
mod written;

pub use follower::{Followed, Follower, FollowerPage, FollowerRead, changed};
pub use lag::{Lag, lag};
