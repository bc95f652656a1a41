//! Entries of a log in one view, in the order of their LSNs. Every reader of the log is made of them.
//!
//! Each entry is checked against the ones before it (`invariants.rs`). A contradiction is logged, and
//! readers that must not go on behind one ask for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_model::{PartitionUid, Result};
use shardlake_stdx::HybridTime;
use shardlake_storage::{Row, Scan, ScanOptions, View};

use super::entry::LogEntry;
use super::invariants::{LogProblem, Page};
use super::marks::LogMarks;
use crate::keys;

/// An entry with its LSN.
pub(crate) type Logged = (u64, LogEntry);

pub(crate) struct Entries {
    uid: PartitionUid,
    marks: Arc<LogMarks>,
    /// In a mutex that is never locked, so that readers can be shared between threads.
    scan: Mutex<Scan>,
    /// Rows that were read and not returned.
    rows: VecDeque<Row>,
    last_lsn: u64,
    last_time: HybridTime,
    problem: Option<(u64, LogProblem)>,
}

impl Entries {
    /// The entries above an LSN. The marks were read after the view was taken, so that they hold for it.
    pub fn behind(
        uid: PartitionUid,
        view: &View,
        marks: Arc<LogMarks>,
        after: u64,
        options: ScanOptions,
    ) -> Entries {
        let (_, end) = keys::space_range(uid, keys::CHANGE_LOG);
        let scan = Mutex::new(view.scan(keys::log_key(uid, after.saturating_add(1))..end, options));
        Entries {
            uid,
            marks,
            scan,
            rows: VecDeque::new(),
            last_lsn: after,
            last_time: HybridTime::default(),
            problem: None,
        }
    }

    /// Some of the next entries, up to a number of them or of their operations, but at least one. None
    /// at the end. A call that is dropped loses nothing.
    pub async fn next(&mut self, entries_max: usize, operations_max: usize) -> Result<Vec<Logged>> {
        if self.rows.is_empty() {
            let scan = self.scan.get_mut().unwrap_or_else(PoisonError::into_inner);
            let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? else {
                return Ok(Vec::new());
            };
            self.rows = rows.into();
        }
        let (mut found, mut operations) = (Vec::new(), 0);
        let mut check = Page::behind(&self.marks, self.last_lsn).at(self.last_time);
        while found.is_empty() || found.len() < entries_max && operations < operations_max {
            let Some((key, value)) = self.rows.pop_front() else { break };
            let (lsn, entry) = logged(&key, &value)?;
            if let [problem, ..] = check.next(lsn, Some(&entry))[..] {
                tracing::error!(
                    partition = self.uid.0,
                    lsn,
                    ?problem,
                    "the log contradicts itself: run verify"
                );
                self.problem.get_or_insert((lsn, problem));
            }
            (self.last_lsn, self.last_time) = (lsn, entry.time);
            operations += entry.operations.len();
            found.push((lsn, entry));
        }
        debug_assert!(found.is_sorted_by(|(one, _), (next, _)| one <= next), "entries come in order");
        Ok(found)
    }

    /// The LSN of the last entry that was returned.
    pub fn last_lsn(&self) -> u64 {
        self.last_lsn
    }

    /// Whether the next entries have to be fetched, if there are any.
    pub fn is_drained(&self) -> bool {
        self.rows.is_empty()
    }

    /// The first entry that contradicts the ones before it.
    pub fn problem(&self) -> Option<(u64, LogProblem)> {
        self.problem
    }
}

/// The entry of a row of the log.
pub(crate) fn logged(key: &[u8], value: &[u8]) -> Result<Logged> {
    Ok((keys::log_lsn(key)?, LogEntry::decode(value)?))
}
