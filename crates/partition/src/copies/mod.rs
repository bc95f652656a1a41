//! Rows of a copy of a container, as the partitions of the copy store them.
//!
//! | file | content |
//! |---|---|
//! | `stamp.rs` | the version of a row, by which a row never goes back |
//! | `batch.rs` | rows to be written and ended, as data, and the answer |
//! | `stored.rs` | stored rows, for those that are made of them |
//! | `apply.rs` | one commit over many logical partitions |
//! | `naming.rs` | names of the rows of a unique index |
//! | `unique.rs` | one commit over rows of a unique index, whose keys' names pass on |

mod apply;
#[cfg(test)]
mod apply_tests;
mod batch;
mod naming;
mod stamp;
mod stored;
mod unique;
#[cfg(test)]
mod unique_tests;
#[cfg(test)]
mod watch_tests;

pub(crate) use apply::{apply_copies, pass_gates};
pub use batch::{CopyBatch, CopyReply, CopyRow, RefusedRow, logical_name};
pub use naming::{ROW_NAME, Rank, duplicate_id, key_name, renamed, with_row_name};
pub use stamp::{OtherSource, RowStamp};
pub(crate) use stored::stored_rows;
pub use unique::UniqueReply;
pub(crate) use unique::apply_unique;
