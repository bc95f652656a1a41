//! The inverted index of a physical partition: its keys, what a container's policy asks for, and the terms of an item.
//!
//! | file | what it does |
//! |---|---|
//! | `keys.rs` | the layout of postings and counters in the shard |
//! | `layout.rs` | an indexing policy compiled for one generation of the index |
//! | `terms.rs` | the terms of one item |
//! | `foreseen.rs` | the terms of a heavy item, found out before they are needed |
//! | `build.rs` | filling a new generation beside the running writes |
//! | `counters.rs` | how many items have a value under a path |
//! | `maintain.rs` | what a commit changes in it |
//! | `verify.rs` | comparing it with the items |

mod build;
mod counters;
mod foreseen;
mod keys;
mod layout;
mod maintain;
mod terms;
mod verify;

pub use build::BuildEnd;
pub(crate) use counters::load_counted;
pub(crate) use foreseen::{Foreseen, check_terms};
pub(crate) use keys::POSTINGS;
pub use keys::{counter_key, decode_counter, index_prefix, path_hash};
pub use layout::IndexLayout;
pub(crate) use layout::is_cut_string;
pub(crate) use maintain::{IndexChange, Maintained, PostingOps};
pub(crate) use terms::ItemTerms;
pub(crate) use verify::IndexVerifier;
