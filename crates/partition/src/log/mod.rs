//! The change log of a partition, as a product for followers.
//!
//! | file | content |
//! |---|---|
//! | `entry.rs` | the entry that every commit writes |
//! | `round.rs`, `items_round.rs` | one view for followers: the changes of a span, the items of a span |
//! | `reader.rs` | pages of entries; the position of a partition |
//! | `rewrite.rs` | entries that a split, merge or move rewrites |
//! | `marks.rs` | how much of the past is kept |
//! | `compaction.rs` | removes entries that no reader can ask for |
//! | `holds.rs` | how far the followers are that the log is kept for |
//! | `invariants.rs` | predicates that readers assert and `verify` reports |

pub(crate) mod compaction;
pub(crate) mod entry;
pub(crate) mod holds;
#[cfg(test)]
mod holds_tests;
pub(crate) mod invariants;
pub(crate) mod items_round;
pub(crate) mod marks;
pub(crate) mod reader;
mod rewrite;
pub(crate) mod round;
#[cfg(test)]
mod round_tests;
