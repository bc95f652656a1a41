//! Collected rows in output order, and the rows that a page keeps for the next page.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::limits::PageLimits;
use super::sort_value::SortValue;
use super::state::{Resume, State, resume_alike, resume_keys};
use crate::value::datum::value_size;
use serde::{Deserialize, Serialize};

/// Bytes of rows that are kept for later pages.
pub(super) const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Memory of an entry besides its text and its keys.
const ENTRY_BYTES: usize = 96;

/// The place of an entry in the order of the results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EntryKey {
    /// Values, with true for descending ones.
    pub keys: Vec<(SortValue, bool)>,
    /// Ordinal and row within the item, or the row's hash.
    pub tie: u128,
}

impl EntryKey {
    pub fn values(&self) -> impl Iterator<Item = &SortValue> {
        self.keys.iter().map(|(value, _)| value)
    }

    /// Whether the entry was returned on an earlier page.
    pub fn is_up_to(&self, resume: &Resume) -> bool {
        match resume {
            Resume::Start => false,
            Resume::Hash(hash) => self.tie <= *hash,
            Resume::Sorted { keys, tie, .. } => {
                let mut cut = false;
                for ((value, descending), resume) in self.keys.iter().zip(keys) {
                    let order = resume.compare(value);
                    let order = if *descending { order.reverse() } else { order };
                    if order.is_ne() {
                        return order.is_lt();
                    }
                    cut |= resume.is_cut();
                }
                // Rows with a cut key are counted when they are returned.
                !cut && self.tie <= *tie
            }
        }
    }
}

impl Ord for EntryKey {
    fn cmp(&self, other: &Self) -> Ordering {
        for ((left, descending), (right, _)) in self.keys.iter().zip(&other.keys) {
            let order = left.cmp(right);
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        self.tie.cmp(&other.tie)
    }
}

impl PartialOrd for EntryKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for EntryKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for EntryKey {}

/// A row to be returned.
#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    /// Empty for a group without a row.
    pub text: Vec<u8>,
    pub appeared: u64,
}

/// Rows of later pages in output order, valid while items and definition are unchanged.
#[derive(Clone)]
pub struct KeptRows {
    pub(super) entries: Arc<Vec<(EntryKey, Entry)>>,
    /// First row of the next page.
    pub(super) from: usize,
    /// More rows follow the last kept row.
    pub(super) is_cut: bool,
    size_bytes: usize,
}

impl KeptRows {
    /// Whether the kept rows fill a page of this size.
    pub(super) fn have_page(&self, limits: PageLimits) -> bool {
        !self.is_cut || self.entries.len() - self.from >= limits.rows
    }

    /// Size of all entries, rows of earlier pages included.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(super) fn new(entries: Vec<(EntryKey, Entry)>) -> KeptRows {
        KeptRows { entries: Arc::new(entries), from: 0, is_cut: false, size_bytes: 0 }
    }

    /// The rows from this place on, for the next page; `None` above [`KEPT_BYTES_MAX`].
    pub(super) fn behind(mut self, from: usize) -> Option<KeptRows> {
        if self.size_bytes == 0 {
            let of_value = |key: &SortValue| value_size(&key.of_its_type());
            let of_values = |key: &EntryKey| key.values().map(of_value).sum::<usize>();
            let size = |(key, entry): &(EntryKey, Entry)| ENTRY_BYTES + entry.text.len() + of_values(key);
            self.size_bytes = self.entries.iter().map(size).sum();
        }
        self.from = from;
        Some(self).filter(|kept| kept.size_bytes <= KEPT_BYTES_MAX)
    }

    /// Must be called before the rows are shared.
    pub(super) fn in_order_of_appearance(&mut self) {
        if let Some(entries) = Arc::get_mut(&mut self.entries) {
            entries.sort_by_key(|(_, entry)| entry.appeared);
        }
    }
}

impl fmt::Debug for KeptRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.entries.len() - self.from)
    }
}

/// Whether two rows have sort keys that are equal in a state.
pub(super) fn alike(left: &EntryKey, right: &EntryKey) -> bool {
    !left.keys.is_empty()
        && resume_alike(left.values(), right.values(), State::key_bytes_max(left.keys.len()))
}

pub(super) fn resume_after(last: &EntryKey, done: u32) -> Resume {
    if last.keys.is_empty() {
        return Resume::Hash(last.tie);
    }
    let keys = resume_keys(last.values(), State::key_bytes_max(last.keys.len()));
    Resume::Sorted { keys, tie: last.tie, done }
}
