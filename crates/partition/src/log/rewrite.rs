//! Entries that a split, merge or move rewrites for the partitions that it makes.

use super::entry::LogEntry;

impl LogEntry {
    /// Without the operations on items that others have.
    pub(crate) fn part(&self, is_own: impl Fn(&[u8]) -> bool) -> LogEntry {
        let operations = self.operations.iter().filter(|operation| is_own(&operation.key)).cloned().collect();
        LogEntry { operations, ..*self }
    }

    /// One entry for two of one LSN, from partitions that become one.
    pub(crate) fn join(&mut self, other: LogEntry) {
        self.timestamp_ms = self.timestamp_ms.max(other.timestamp_ms);
        self.operations.extend(other.operations);
    }
}
