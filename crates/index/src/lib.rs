//! Contents of a container's index, as pure functions of policy and item: no storage, no partition.
//!
//! | file | contents |
//! |---|---|
//! | `path_hash.rs` | paths as the index knows them |
//! | `layout.rs` | an indexing policy compiled for one generation of the index |
//! | `terms.rs` | the terms of one item, the contents of its postings |
//! | `charged.rs` | the terms of one item, counted for its charge |
//! | `witness.rs` | counts terms for tests |

mod charged;
mod layout;
mod path_hash;
mod terms;
#[cfg(feature = "testing")]
pub mod witness;

pub use charged::{SYSTEM_TERMS, TermSet};
pub use layout::{CompositeLayout, CompositeMember, IndexLayout, is_cut};
pub use path_hash::{path_hash, summary_hash};
pub use terms::{ItemTerms, summary_term};
