//! Entries that a split, merge or move rewrites for the partitions that it makes.

use shardlake_model::Result;

use super::entry::LogEntry;

impl LogEntry {
    /// Without the operations on items that others have.
    pub(crate) fn part(&self, is_own: impl Fn(&[u8]) -> bool) -> LogEntry {
        let operations = self.operations.iter().filter(|operation| is_own(&operation.key)).cloned().collect();
        LogEntry { operations, ..*self }
    }

    /// One entry for two of one LSN, from partitions that become one.
    pub(super) fn join(&mut self, other: LogEntry) {
        self.time = self.time.max(other.time);
        self.due = self.due.zip(other.due).map(|(own, other)| own.min(other));
        if self.origin != other.origin {
            self.origin = 0;
        }
        self.operations.extend(other.operations);
    }

    /// [`LogEntry::join`] with an entry as it is stored.
    pub(crate) fn join_stored(&mut self, other: &[u8]) -> Result<()> {
        self.join(LogEntry::decode(other)?);
        Ok(())
    }
}
