//! The inverted index of a physical partition: its keys, and how it is kept. Layouts and terms are `shardlake-index`'s.
//!
//! | file | what it does |
//! |---|---|
//! | `keys.rs` | the layout of postings and counters in the shard |
//! | `foreseen.rs` | the terms of a heavy item, found out before they are needed |
//! | `build.rs` | filling a new generation beside the running writes |
//! | `counters.rs` | how many items have a value under a path |
//! | `maintain.rs` | what a commit changes in it |
//! | `verify.rs` | comparing it with the items |

mod build;
mod counters;
mod foreseen;
mod keys;
mod maintain;
mod verify;

pub use build::BuildEnd;
pub(crate) use counters::load_counted;
pub(crate) use foreseen::{Foreseen, check_terms};
pub(crate) use keys::POSTINGS;
#[cfg(feature = "testing")]
pub(crate) use keys::{BuildMarker, COUNTERS, MARKERS, parse_posting};
pub(crate) use keys::{counter_key, decode_counter, index_prefix};
pub(crate) use maintain::{IndexChange, Maintained, PostingOps};
pub(crate) use verify::IndexVerifier;
