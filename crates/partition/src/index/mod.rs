//! The inverted index of a physical partition: its keys, and how it is kept. Layouts and terms are `shardlake-index`'s.
//!
//! | file | content |
//! |---|---|
//! | `keys.rs` | the layout of postings and counters in the shard |
//! | `counters.rs` | how many items have a value under a path |
//! | `maintain.rs` | changes of the index by a commit |
//! | `verify.rs` | comparing it with the items |

mod counters;
mod keys;
mod maintain;
mod verify;

pub(crate) use counters::load_counted;
#[cfg(feature = "testing")]
pub(crate) use keys::parse_posting;
pub(crate) use keys::{
    BuildMarker, counter_key, decode_counter, index_prefix, marker_key, posting_key, range_of_ids,
};
pub(crate) use maintain::{COUNTED_PATHS_MAX, Count, CountedPath, IndexChange, Maintained, PostingOps};
pub(crate) use verify::IndexVerifier;

#[cfg(test)]
mod index_tests;
