//! Sort keys from the `orderByItems` of a rewritten `ORDER BY` row, with a total order.

use std::cmp::Ordering;

use crate::envelope::order_by_items;
use crate::execute::SortValue;
use crate::prepared::PreparedQuery;

/// The sort keys of one row: rows of a page compare as their keys do.
#[derive(Debug)]
pub struct SortKeys(Vec<(SortValue, bool)>);

impl PreparedQuery {
    /// `None` for rows without `orderByItems`.
    pub fn sort_keys(&self, row: &[u8]) -> Option<SortKeys> {
        let order = &self.bound().order_by;
        let values = order_by_items(row).ok()?;
        let is_complete = values.len() == order.len();
        let directions = order.iter().map(|key| key.descending);
        is_complete.then(|| SortKeys(values.into_iter().map(SortValue::from).zip(directions).collect()))
    }
}

impl Ord for SortKeys {
    fn cmp(&self, other: &Self) -> Ordering {
        for ((left, descending), (right, _)) in self.0.iter().zip(&other.0) {
            let order = left.cmp(right);
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }
}

impl PartialOrd for SortKeys {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKeys {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortKeys {}
