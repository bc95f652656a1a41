//! Tasks of the owner that run concurrently with requests.
//!
//! | file | content |
//! |---|---|
//! | `compaction.rs` | removing entries from the change log that no reader can ask for |
//! | `index_build.rs` | filling a new generation with the items that are there; deleting one |
//! | `path_counts.rs` | counting the items that have a value under a path |

pub(crate) mod compaction;
mod index_build;
mod path_counts;

pub use compaction::{Compaction, CompactionStep};
pub use index_build::BuildEnd;
pub(crate) use index_build::{build_index, drop_indexes_below, maintain_indexes, retire_indexes_below};
pub(crate) use path_counts::{count_path, count_path_in_background};
