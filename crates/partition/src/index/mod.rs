//! The inverted index of a physical partition: its keys, what a container's policy asks for, and the terms of an item.
//!
//! | file | what it does |
//! |---|---|
//! | `keys.rs` | the layout of postings and counters in the shard |
//! | `layout.rs` | an indexing policy compiled for one generation of the index |
//! | `terms.rs` | the postings of one item |

#![allow(dead_code)] // Transactions take it up next.

mod keys;
mod layout;
mod terms;

pub use keys::{counter_key, decode_counter, index_prefix, path_hash};
pub use layout::{CompositeLayout, IndexLayout};
#[allow(unused_imports)]
pub(crate) use terms::ItemTerms;
