//! Rows of copies that end with a version of an item.
//!
//! A copy is a container whose rows follow from the items of another one, such as a global secondary
//! index. A version that ends takes rows with it, and its record is gone when the copy reads the log.
//! So the commit that ends it records these rows ([`crate::LogOperation::ended`]).
//!
//! The transaction that makes the log entry is the only caller: requests, batches, scripts, sweeps and
//! deletions of whole logical partitions all commit through it.

use std::fmt::Debug;

use shardlake_document::ItemView;
use shardlake_routing::LogicalKey;

use crate::log::entry::EndedRow;

/// The copies of a container, as its commits see them.
pub trait Watch: Send + Sync + Debug {
    /// Rows that the ended version has and the new one does not, one by one: the operations of one
    /// commit on one item record each of them once. At most [`ENDED_ROWS_MAX`], each of less than
    /// 64 KiB. Rows that no copy can have, such as those with a key that is too long, are left out.
    fn ended(&self, ended: &EndedVersion<'_>) -> Vec<EndedRow>;
}

/// Rows of all copies that one version may have.
pub const ENDED_ROWS_MAX: usize = 20 * 100;

/// A version that ends.
#[derive(Debug, Clone, Copy)]
pub struct EndedVersion<'a> {
    pub logical: &'a LogicalKey,
    pub old: ItemView<'a>,
    /// The version that replaces it; `None` where the item is deleted.
    pub new: Option<ItemView<'a>>,
}
