//! Invariants of the change log, entry after entry.

use shardlake_stdx::HybridTime;

use crate::log::entry::LogEntry;
use crate::log::marks::LogMarks;

/// A contradiction between an entry and the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogProblem {
    /// Entries are missing that were not compacted.
    Jump,
    /// The LSN is not above that of the entry before.
    NotAbove,
    TimeBack,
    /// An operation ends a version that is not older than itself.
    NotEnded {
        previous_lsn: u64,
    },
}

/// A walk over consecutive entries of a log.
#[derive(Debug)]
pub(crate) struct Page<'m> {
    marks: &'m LogMarks,
    last_lsn: u64,
    last: HybridTime,
}

impl<'m> Page<'m> {
    /// A walk that begins behind an LSN, with the marks of the same log.
    pub fn behind(marks: &'m LogMarks, last_lsn: u64) -> Page<'m> {
        Page { marks, last_lsn, last: HybridTime::default() }
    }

    /// With the time of the last entry, where a walk goes on.
    pub fn at(self, last: HybridTime) -> Page<'m> {
        Page { last, ..self }
    }

    /// The next entry. A damaged entry keeps its place.
    pub fn next(&mut self, lsn: u64, entry: Option<&LogEntry>) -> Vec<LogProblem> {
        let mut problems = Vec::new();
        let (expected, holes_to) = (self.last_lsn + 1, self.marks.holes_to);
        if lsn < expected {
            problems.push(LogProblem::NotAbove);
        } else if lsn != expected && (expected > holes_to || lsn > holes_to + 1) {
            problems.push(LogProblem::Jump);
        }
        self.last_lsn = lsn;
        let Some(entry) = entry else { return problems };
        if entry.time < self.last && lsn > self.marks.joined_to {
            problems.push(LogProblem::TimeBack);
        }
        self.last = entry.time;
        let ends_itself = entry.operations.iter().find(|operation| operation.previous_lsn >= lsn);
        problems.extend(
            ends_itself.map(|operation| LogProblem::NotEnded { previous_lsn: operation.previous_lsn }),
        );
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::entry::{ChangeKind, Counters, LogOperation};

    fn entry(timestamp_ms: u64, previous_lsn: u64) -> LogEntry {
        let operation = LogOperation::new(ChangeKind::Replace, 1, previous_lsn, &[1]);
        LogEntry::new(HybridTime::from_milliseconds(timestamp_ms), Counters::default(), vec![operation])
    }

    #[test]
    fn a_log_without_holes_has_every_lsn_and_rising_times() {
        let marks = LogMarks::default();
        let mut page = Page::behind(&marks, 6);
        assert_eq!(page.next(7, Some(&entry(50, 6))), []);
        assert_eq!(page.next(8, Some(&entry(50, 7))), [], "two commits may have one time");
        assert_eq!(page.next(9, Some(&entry(49, 7))), [LogProblem::TimeBack]);
        assert_eq!(page.next(11, Some(&entry(60, 9))), [LogProblem::Jump]);
        assert_eq!(page.next(11, Some(&entry(60, 9))), [LogProblem::NotAbove]);
        assert_eq!(page.next(12, Some(&entry(60, 12))), [LogProblem::NotEnded { previous_lsn: 12 }]);
        assert_eq!(page.next(13, None), [], "a damaged entry has its place");
        assert_eq!(page.next(14, Some(&entry(60, 13))), []);
    }

    #[test]
    fn holes_and_joined_times_are_known_by_the_marks() {
        let first = LogMarks::default();
        let marks = LogMarks::of_sources(&[(vec![], &first), (b"m".to_vec(), &first)], 20);
        let mut page = Page::behind(&marks, 0);
        assert_eq!(page.next(5, Some(&entry(90, 2))), [], "compacted");
        assert_eq!(page.next(9, Some(&entry(40, 3))), [], "of another log");
        assert_eq!(page.next(21, Some(&entry(95, 3))), [], "the first entry behind the holes");
        assert_eq!(page.next(22, Some(&entry(94, 3))), [LogProblem::TimeBack]);
        let mut page = Page::behind(&marks, 9);
        assert_eq!(page.next(22, Some(&entry(1, 3))), [LogProblem::Jump], "LSN 21 must be there");
    }
}
