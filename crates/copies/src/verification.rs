//! Report of a comparison, in memory until the server ends.

use std::sync::Mutex;

use shardlake_model::{Error, Result};
use shardlake_stdx::Timestamp;

/// Differences that are listed; others are counted.
pub const DIFFERENCES_LISTED: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyState {
    Running,
    /// Everything was compared.
    Done,
    /// With the reason: the rest was not compared.
    Failed(String),
}

#[derive(Debug, Clone)]
pub struct IndexVerification {
    pub state: VerifyState,
    pub began: Timestamp,
    pub ended: Option<Timestamp>,
    /// Items of the source when it began; more may have come.
    pub items_at_first: u64,
    /// Items whose rows were compared.
    pub items: u64,
    /// Rows of the index that were looked at; once for each part of the source.
    pub rows: u64,
    pub differences: u64,
    /// The first of them.
    pub listed: Vec<Difference>,
    /// The generation that is built because of them.
    pub repaired_by: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The index lacks a row.
    Missing,
    /// A row has another content.
    Other,
    /// No item has this row.
    TooMany,
    /// A row of a unique index has the name that another one should have.
    WrongName,
}

/// One difference, with both sides as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// Id of the source's item.
    pub item: String,
    /// The row's partition key, as JSON, and its id.
    pub key: String,
    pub row: String,
    pub expected: Option<String>,
    pub found: Option<String>,
}

/// The last comparison of an index.
pub(crate) type Verification = Mutex<Option<IndexVerification>>;

impl IndexVerification {
    pub(crate) fn begin(began: Timestamp, items_at_first: u64) -> IndexVerification {
        IndexVerification {
            state: VerifyState::Running,
            began,
            ended: None,
            items_at_first,
            items: 0,
            rows: 0,
            differences: 0,
            listed: Vec::new(),
            repaired_by: None,
        }
    }

    pub(crate) fn end(&mut self, outcome: Result<Option<u16>>, ended: Timestamp) {
        self.ended = Some(ended);
        self.state = match outcome {
            Ok(repaired_by) => {
                self.repaired_by = repaired_by;
                VerifyState::Done
            }
            Err(error) => VerifyState::Failed(reason(&error)),
        };
    }

    pub(crate) fn note(&mut self, difference: Difference) {
        self.differences += 1;
        if self.listed.len() < DIFFERENCES_LISTED {
            self.listed.push(difference);
        }
    }

    /// Share of the items that is compared.
    pub fn percent(&self) -> u8 {
        match self.state {
            VerifyState::Done => 100,
            _ => crate::status::percent(self.items, self.items_at_first),
        }
    }
}

fn reason(error: &Error) -> String {
    error.message().to_owned()
}
