//! Tasks on the index that run concurrently with requests.
//!
//! | file | content |
//! |---|---|
//! | `index_build.rs` | filling a new generation with the items that are there; deleting one |
//! | `path_counts.rs` | counting the items that have a value under a path |

mod index_build;
mod path_counts;

pub use index_build::BuildEnd;
pub(crate) use index_build::{build_index, drop_indexes_below, maintain_indexes, retire_indexes_below};
pub(crate) use path_counts::{count_path, count_path_in_background};
