//! Reading the change log: pages for clients' feeds, rounds for followers.
//!
//! | file | content |
//! |---|---|
//! | `round.rs`, `items_round.rs` | one view for followers: the changes of a span, the items of a span |
//! | `logical_items.rs` | the items of one logical partition in the view of a round |
//! | `reader.rs` | pages of entries; the first entry from an LSN on |

#[cfg(test)]
mod holds_tests;
pub(crate) mod items_round;
pub(crate) mod logical_items;
pub(crate) mod reader;
pub(crate) mod round;
#[cfg(test)]
mod round_tests;
