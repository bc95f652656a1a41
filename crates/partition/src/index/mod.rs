//! The inverted index of a physical partition: its keys, and how it is kept. Layouts and terms are `shardlake-index`'s.
//!
//! | file | content |
//! |---|---|
//! | `keys.rs` | the layout of postings and counters in the shard |
//! | `body_terms.rs` | the terms of one body, found out once |
//! | `build.rs` | filling a new generation concurrently with writes |
//! | `counters.rs` | how many items have a value under a path |
//! | `maintain.rs` | changes of the index by a commit |
//! | `verify.rs` | comparing it with the items |

mod body_terms;
mod build;
mod counters;
mod keys;
mod maintain;
mod verify;

pub(crate) use body_terms::{BodyTerms, IndexTerms};
pub use build::BuildEnd;
pub(crate) use build::{build_index, drop_indexes_below, maintain_indexes, retire_indexes_below};
pub(crate) use counters::{count_path, count_path_in_background, load_counted};
#[cfg(feature = "testing")]
pub(crate) use keys::{BuildMarker, parse_posting};
pub(crate) use keys::{counter_key, decode_counter, index_prefix, posting_key};
#[cfg(feature = "testing")]
pub(crate) use maintain::PostingOps;
pub(crate) use maintain::{IndexChange, Maintained};
pub(crate) use verify::IndexVerifier;

#[cfg(test)]
mod index_tests;
