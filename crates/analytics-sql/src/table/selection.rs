//! Deletion vectors as selections of rows: the Parquet reader skips the pages of deleted rows.

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use roaring::RoaringBitmap;

/// The rows of a file that are live. `rows` is the number of rows in the file.
pub(super) fn live_rows(deleted: &RoaringBitmap, rows: u64) -> RowSelection {
    let mut selectors = Vec::new();
    let mut next: u64 = 0;
    let mut numbers = deleted.iter().map(u64::from).take_while(|number| *number < rows).peekable();
    while let Some(first) = numbers.next() {
        let mut end = first + 1;
        while numbers.next_if_eq(&end).is_some() {
            end += 1;
        }
        if first > next {
            selectors.push(RowSelector::select((first - next) as usize));
        }
        selectors.push(RowSelector::skip((end - first) as usize));
        next = end;
    }
    if rows > next {
        selectors.push(RowSelector::select((rows - next) as usize));
    }
    RowSelection::from(selectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_has_the_rows_that_the_vector_leaves() {
        for (deleted, rows, expected) in [
            (vec![], 3, vec![(false, 3)]),
            (vec![0], 3, vec![(true, 1), (false, 2)]),
            (vec![2], 3, vec![(false, 2), (true, 1)]),
            (vec![1, 2, 3, 7], 10, vec![(false, 1), (true, 3), (false, 3), (true, 1), (false, 2)]),
            (vec![0, 1, 2], 3, vec![(true, 3)]),
            // Numbers beyond the file are none of its rows.
            (vec![1, 9], 3, vec![(false, 1), (true, 1), (false, 1)]),
        ] {
            let selection = live_rows(&RoaringBitmap::from_iter(deleted.iter().copied()), rows);
            let found: Vec<(bool, usize)> =
                selection.iter().map(|selector| (selector.skip, selector.row_count)).collect();
            assert_eq!(found, expected, "{deleted:?} of {rows}");
        }
    }
}
