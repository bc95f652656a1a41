//! The largest logical partitions of a physical one, kept in memory by its commits (`size_reports.rs`).

use rustc_hash::FxHashMap;

use super::LogicalSize;

/// Logical partitions that can be asked for.
pub(crate) const ASKED_MAX: usize = 32;
/// Held after a cut, and at most before one: the difference pays for the cost of a cut.
const HELD: usize = 2 * ASKED_MAX;
const HELD_MAX: usize = 2 * HELD;

#[derive(Debug, Default)]
pub(crate) struct Largest {
    /// By the part of their keys that names them.
    pub held: FxHashMap<Box<[u8]>, LogicalSize>,
    /// No logical partition that is not held has more bytes.
    pub left_out_bytes: u64,
    is_complete: bool,
}

impl Largest {
    pub fn note(&mut self, key: &[u8], size: LogicalSize) {
        if size.items == 0 {
            self.held.remove(key);
        } else if let Some(held) = self.held.get_mut(key) {
            *held = size;
        } else if size.size_bytes > self.left_out_bytes {
            self.held.insert(key.into(), size);
            if self.held.len() > HELD_MAX {
                self.cut();
            }
        }
    }

    /// Completes the list: from now on a partition that is not held was left out or does not exist.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    fn cut(&mut self) {
        let mut held: Vec<_> = std::mem::take(&mut self.held).into_iter().collect();
        // Keys differ, so that exactly so many stay, however many sizes are equal.
        held.select_nth_unstable_by(HELD, |(key, size), (other_key, other)| {
            other.size_bytes.cmp(&size.size_bytes).then_with(|| key.cmp(other_key))
        });
        self.left_out_bytes = self.left_out_bytes.max(held[HELD].1.size_bytes);
        held.truncate(HELD);
        debug_assert_eq!(held.len(), HELD, "a cut leaves so many");
        self.held = held.into_iter().collect();
    }

    /// The largest ones, up to `count`; `None` where the list does not contain even `needed`
    /// certain ones.
    pub fn first(&self, count: usize, needed: usize) -> Option<Vec<(&[u8], LogicalSize)>> {
        let certain = self.held.iter().filter(|(_, size)| size.size_bytes >= self.left_out_bytes);
        let mut certain: Vec<_> = certain.map(|(key, size)| (&key[..], *size)).collect();
        if !self.is_complete || (certain.len() < needed && self.left_out_bytes > 0) {
            return None;
        }
        certain.sort_unstable_by(|(key, size), (other_key, other)| {
            other.size_bytes.cmp(&size.size_bytes).then(key.cmp(other_key))
        });
        certain.truncate(count);
        Some(certain)
    }
}
