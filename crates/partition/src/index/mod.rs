//! The inverted index of a physical partition: its keys, what a container's policy asks for, and the terms of an item.
//!
//! | file | what it does |
//! |---|---|
//! | `keys.rs` | the layout of postings and counters in the shard |
//! | `layout.rs` | an indexing policy compiled for one generation of the index |
//! | `terms.rs` | the terms of one item |
//! | `body_terms.rs` | the terms of one body, found out once |
//! | `build.rs` | filling a new generation beside the running writes |
//! | `counters.rs` | how many items have a value under a path |
//! | `maintain.rs` | what a commit changes in it |
//! | `verify.rs` | comparing it with the items |

mod body_terms;
mod build;
mod counters;
mod keys;
mod layout;
mod maintain;
mod terms;
mod verify;

pub(crate) use body_terms::{BodyTerms, IndexTerms};
pub use build::BuildEnd;
pub(crate) use counters::load_counted;
pub(crate) use keys::{POSTINGS, ROOT_HASH, hash_of_elements, hash_of_member};
pub use keys::{counter_key, decode_counter, index_prefix, path_hash};
pub use layout::IndexLayout;
pub(crate) use layout::is_cut_string;
#[cfg(feature = "testing")]
pub(crate) use maintain::PostingOps;
pub(crate) use maintain::{IndexChange, Maintained};
pub(crate) use terms::ItemTerms;
pub(crate) use verify::IndexVerifier;
