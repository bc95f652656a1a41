//! Following the change log of a container, through splits, merges and moves: what others keep true by it.
//!
//! | file | what it does |
//! |---|---|
//! | `follower.rs` | [`Follower`]: a page of changes at a time, a checkpoint, waiting for more |
//! | `written.rs` | the items that a page says were written |
//! | `lag.rs` | how far a checkpoint is behind |
//!
//! A follower reads a container by parts of its hash space, each up to some LSN. Ranges come and go under a part: LSNs hold in
//! the ranges that take another's place, for the same span. A part over several ranges is divided before it is read;
//! neighbours that are level are joined, so that their number stays that of the ranges.
//!
//! ```text
//! checkpoint → Follower::new → read → … do what the page says … → done → checkpoint, to be stored
//!                               └─ End → look_again, changed(followed) ┘
//! ```
//! The page names the keys of items, not their bodies: whoever follows reads the newest version, so that doing a page again
//! does no harm. A checkpoint may be stored once what it counts is durable.

mod follower;
mod lag;
mod written;

pub use follower::{Followed, Follower, FollowerPage, FollowerRead, changed};
pub use lag::{Lag, lag};
