//! How large each logical partition is: exact, in storage, in step with the items.
//!
//! Every commit that changes items changes the size of their logical partition in the same batch, so a crash leaves both
//! or neither; a logical partition without items has no entry. Sizes are the items' JSON sizes, the ones that charges
//! and limits are counted in; an item whose time has run out counts until it is removed, as in the partition's totals.
//!
//! | file | content |
//! |---|---|
//! | `count.rs` | counts a partition from before there were sizes |
//! | `limit.rs` | refusals of writes that exceed a size limit |
//! | `largest.rs` | the largest logical partitions, kept in memory |
//! | `recent.rs` | sizes that were written lately, to spare reading them |
//! | `verify.rs` | compares the sizes with the items |

mod count;
mod largest;
pub(crate) mod limit;
mod recent;
mod verify;

pub(crate) use count::{count, is_counted};
pub(crate) use largest::{ASKED_MAX, Largest};
pub(crate) use recent::RecentSizes;
pub(crate) use verify::SizeVerifier;

use bytes::Bytes;
use shardlake_model::{Error, ErrorKind, Result};

/// Items of a logical partition and their bytes of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogicalSize {
    pub items: u64,
    pub size_bytes: u64,
}

impl LogicalSize {
    pub(crate) fn encode(self) -> Bytes {
        Bytes::from([self.items.to_be_bytes(), self.size_bytes.to_be_bytes()].concat())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<LogicalSize> {
        let (items, size_bytes) = bytes.split_first_chunk().ok_or_else(crate::malformed_key)?;
        let size_bytes = size_bytes.try_into().map_err(|_| crate::malformed_key())?;
        Ok(LogicalSize { items: u64::from_be_bytes(*items), size_bytes: u64::from_be_bytes(size_bytes) })
    }

    pub(crate) fn changed_by(self, change: SizeChange) -> Result<LogicalSize> {
        let items = self.items.checked_add_signed(change.items);
        let size_bytes = self.size_bytes.checked_add_signed(change.size_bytes);
        match (items, size_bytes) {
            (Some(items), Some(size_bytes)) => Ok(LogicalSize { items, size_bytes }),
            _ => Err(Error::new(
                ErrorKind::Corrupt,
                "more is taken from a logical partition than its recorded size: run verify",
            )),
        }
    }
}

/// Change of the size of a transaction's logical partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SizeChange {
    pub items: i64,
    pub size_bytes: i64,
}

impl SizeChange {
    pub fn add(&mut self, more: SizeChange) {
        self.items += more.items;
        self.size_bytes += more.size_bytes;
    }
}

#[cfg(test)]
mod tests;
