//! Drops the tables that hold only rows of a deleted range, so that the range need not be deleted
//! row by row.
//!
//! A partition that was split, merged or moved here lies in tables of its own (`bulk.rs`), and so
//! does most of a partition that grew here. Without this, each of its rows is written once more as
//! a deletion, and read and written again by the merges that bring the two together.
//!
//! **A crash must not bring any row back.** fjall's recovery takes from the journals all rows
//! younger than the tables. Where the youngest tables are dropped, it would take their rows from a
//! journal again. So no journal may have one of these rows by then:
//!
//! ```text
//! begin a journal │ sort the memtables │ delete the journals before │ drop the tables
//!  no row of the range is written any more │ by then all their rows are in tables
//! ```

use std::ops::Bound;

use fjall::{AbstractTree, Database, Keyspace};

use crate::StorageError;

/// Less is deleted row by row: a journal and a sorted memtable cost more.
const WORTH_BYTES: u64 = 4 * 1024 * 1024;

/// Drops the tables whose keys have a prefix that is not written any more. `sort` brings all
/// memtables into tables. Rows of the prefix in other tables stay.
pub(crate) fn drop_within(
    (database, rows): (&Database, &Keyspace),
    prefix: &[u8],
    sort: impl FnOnce() -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let range = (Bound::Included(prefix.to_vec()), behind(prefix));
    if rows.tree.table_bytes_within(range.clone()) < WORTH_BYTES {
        return Ok(());
    }
    let last = database.begin_journal()?;
    sort()?;
    database.retire_journals()?;
    // Where a reader keeps the journal from being deleted, rows are deleted one by one.
    if !last.exists() {
        rows.tree.drop_range(range).map_err(fjall::Error::from)?;
    }
    Ok(())
}

/// The first key behind those with a prefix.
fn behind(prefix: &[u8]) -> Bound<Vec<u8>> {
    let Some(last) = prefix.iter().rposition(|byte| *byte < u8::MAX) else { return Bound::Unbounded };
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Bound::Excluded(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_behind_a_prefix_is_found_over_all_carries() {
        assert_eq!(behind(&[0, 0, 0, 7]), Bound::Excluded(vec![0, 0, 0, 8]));
        assert_eq!(behind(&[0, 0, 0xFF, 0xFF]), Bound::Excluded(vec![0, 1]));
        assert_eq!(behind(&[0xFF, 0xFF]), Bound::Unbounded);
    }
}
