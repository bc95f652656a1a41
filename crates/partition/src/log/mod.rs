//! The change log of a partition: its entries, their checks, and how far back they are kept.
//!
//! | file | content |
//! |---|---|
//! | `entry.rs` | the entry that every commit writes |
//! | `format.rs` | the bytes of an entry |
//! | `entries.rs` | entries one after the other, checked: every reader is made of them |
//! | `rewrite.rs` | entries that a split, merge or move rewrites |
//! | `marks.rs` | how much of the past is kept |
//! | `holds.rs` | how far the followers are that the log is kept for |
//! | `invariants.rs` | predicates that readers check and `verify` reports |
//!
//! Readers are in `crate::changes`, compaction is in `crate::tasks`: they need the state of the partition,
//! which knows the marks and the holds.

pub(crate) mod entries;
pub(crate) mod entry;
mod format;
pub(crate) mod holds;
pub(crate) mod invariants;
pub(crate) mod marks;
mod rewrite;
