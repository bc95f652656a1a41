//! Steps of pages of the source's log, as data and in the order in which they are to be done.
//!
//! ```text
//! Write   every row of the page's items, as the newest version has it   all durable, then
//! End     every row that the page's versions took with them             all durable, then
//! Done    the position
//! ```
//! *Write before End*: an item whose row moves is at both keys for a moment, never at none. *End before
//! Done*: a deletion is repeated after a crash. *Every version's rows end*, not only the first one's of an
//! item: an earlier attempt at these changes may have stopped in between, and written a row of a version
//! that this attempt does not see.

use std::collections::BTreeMap;

use bytes::Bytes;
use shardlake_model::PartitionKey;
use shardlake_partition::{CopyRow, LogicalKey, RowStamp};
use shardlake_router::{EndedIndexRow, KeyedRow};

/// A change of an item of the source.
#[derive(Debug, Clone)]
pub(crate) struct ItemChange {
    pub lsn: u64,
    /// The item's logical partition in the source.
    pub logical: LogicalKey,
    /// LSN and rows of the newest version in the view, which may be above the page; `None` where the item
    /// is deleted, or another change of the page has it.
    pub newest: Option<(u64, Vec<KeyedRow>)>,
    /// Rows that the ended version had and its successor has not.
    pub ended: Vec<EndedIndexRow>,
}

#[derive(Debug, Clone)]
pub(crate) enum Step<P> {
    Write(Vec<CopyRow>),
    End(Vec<CopyRow>),
    /// Everything up to here is applied.
    Done(P),
}

/// A generation of an index, for the stamps and the keys of its rows.
pub(crate) trait Generation {
    fn generation(&self) -> u16;
    /// The place of a key in the index.
    fn logical(&self, key: PartitionKey) -> LogicalKey;
}

/// `upto` is the position behind the changes, which may be of several parts of the source.
pub(crate) fn steps<P>(generation: &impl Generation, changes: Vec<ItemChange>, upto: P) -> [Step<P>; 3] {
    let (mut rows, mut ends) = (Rows::default(), Rows::default());
    for change in changes {
        let stamp = |lsn, number| RowStamp {
            lsn,
            source: RowStamp::source_of(&change.logical),
            generation: generation.generation(),
            number,
        };
        let newest = change.newest.into_iter();
        for (lsn, row) in newest.flat_map(|(lsn, rows)| rows.into_iter().map(move |row| (lsn, row))) {
            rows.add(row_of(row, |number| stamp(lsn, number)));
        }
        for EndedIndexRow { number, id, key } in change.ended {
            // Rows of the same commit have its LSN, and stay.
            let stamp = stamp(change.lsn, number).before();
            ends.add(CopyRow { key: generation.logical(key), id, stamp, body: None });
        }
    }
    [Step::Write(rows.into_list()), Step::End(ends.into_list()), Step::Done(upto)]
}

pub(crate) fn row_of(row: KeyedRow, stamp: impl FnOnce(u16) -> RowStamp) -> CopyRow {
    let number = u16::try_from(row.row.number).expect("an item has at most 100 rows");
    let body = Some(row.row.body.as_bytes().to_vec());
    CopyRow { key: row.key, id: row.row.id, stamp: stamp(number), body }
}

/// Rows by their names: of several with one name the one with the highest stamp.
#[derive(Debug, Default)]
struct Rows(BTreeMap<(Bytes, String), CopyRow>);

impl Rows {
    fn add(&mut self, row: CopyRow) {
        let key = Bytes::from(shardlake_partition::logical_name(&row.key));
        let known = self.0.entry((key, row.id.clone())).or_insert_with(|| row.clone());
        if row.stamp.lsn > known.stamp.lsn {
            *known = row;
        }
    }

    fn into_list(self) -> Vec<CopyRow> {
        self.0.into_values().collect()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
