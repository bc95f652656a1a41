//! Rows of a copy of a container, as the partitions of the copy store them.
//!
//! | file | content |
//! |---|---|
//! | `stamp.rs` | the version of a row, by which a row never goes back |
//! | `batch.rs` | rows to be written and ended, as data, and the answer |
//! | `stored.rs` | stored rows, for those that are made of them |
//! | `apply.rs` | one commit over many logical partitions |

mod apply;
#[cfg(test)]
mod apply_tests;
mod batch;
mod stamp;
mod stored;
#[cfg(test)]
mod watch_tests;

pub(crate) use apply::apply_copies;
pub use batch::{CopyBatch, CopyReply, CopyRow, RefusedRow, logical_name};
pub use stamp::{OtherSource, RowStamp};
pub(crate) use stored::stored_rows;
