//! What the statements of a session's last retryable write answered, so that a repetition is answered alike and writes nothing.
//!
//! Kept in memory: a repetition after a restart of the server is a new write. The results of all sessions together are bounded; a session whose results
//! had to go answers a repetition with error 217 and never writes twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardlake_mql::Document;

use super::transactions::{OpenTransactions, Phase};
use crate::errors::{Result, code, error, fail};

/// Of all sessions together.
const RESULTS_SIZE_BYTES_MAX: usize = 128 << 20;
/// Of an entry of the table beyond its document.
const ENTRY_SIZE_BYTES: usize = 64;

/// Bytes that results of all sessions take.
#[derive(Debug, Default)]
pub struct ResultSpace(AtomicUsize);

/// The statements of one session.
#[derive(Debug)]
pub struct Statements {
    state: Mutex<State>,
    /// A repetition waits until the command that it repeats has ended.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    space: Arc<ResultSpace>,
    pub(super) open: Arc<OpenTransactions>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The highest number that the session has used.
    pub number: Option<i64>,
    /// Where the number is a transaction's.
    pub transaction: Option<Phase>,
    results: HashMap<i32, Arc<Document>>,
    size_bytes: usize,
    /// A result found no room: what is not here may have been written all the same.
    is_incomplete: bool,
}

/// The statements of one command that may be repeated.
#[derive(Debug)]
pub struct RetryableWrite {
    statements: Arc<Statements>,
    number: i64,
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

impl Statements {
    pub fn new(space: Arc<ResultSpace>, open: Arc<OpenTransactions>) -> Statements {
        Statements { state: Mutex::default(), turn: Arc::default(), space, open }
    }

    /// Begins, or repeats, the write of this number.
    pub async fn begin(self: &Arc<Self>, number: i64) -> Result<RetryableWrite> {
        if number < 0 {
            fail!(code::INVALID_OPTIONS, "Transaction number cannot be negative: {number}");
        }
        let turn = self.turn.clone().lock_owned().await;
        let mut state = self.state();
        match state.number {
            Some(highest) if number < highest => fail!(
                code::TRANSACTION_TOO_OLD,
                "Cannot start a retryable write with number {number}: the session has used {highest}"
            ),
            Some(highest) if number == highest && state.transaction.is_some() => fail!(
                code::CONFLICTING_OPERATION,
                "The number {number} of this session is that of a transaction: a write by itself needs another one"
            ),
            Some(highest) if number == highest => {}
            _ => self.renumber(&mut state, number, None),
        }
        drop(state);
        Ok(RetryableWrite { statements: self.clone(), number, _turn: turn })
    }

    /// Goes on to a higher number. A transaction that was open ends.
    pub(super) fn renumber(&self, state: &mut State, number: i64, transaction: Option<Phase>) {
        self.space.0.fetch_sub(state.size_bytes, Ordering::Relaxed);
        *state = State { number: Some(number), transaction, ..State::default() };
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        let size_bytes = self.state().size_bytes;
        self.space.0.fetch_sub(size_bytes, Ordering::Relaxed);
    }
}

impl RetryableWrite {
    /// What the statement answered when it was run; `None` where it was not.
    pub fn replay(&self, statement: i32) -> Result<Option<Arc<Document>>> {
        let state = self.statements.state();
        match state.results.get(&statement) {
            Some(result) => Ok(Some(result.clone())),
            None if state.is_incomplete => Err(error!(
                code::INCOMPLETE_HISTORY,
                "the result of statement {statement} of write {} is no longer known", self.number
            )),
            None => Ok(None),
        }
    }

    /// Keeps what a statement answered. To be called once the write is acknowledged, without an await in between.
    pub fn record(&self, statement: i32, result: Document) {
        let size = result.size() + ENTRY_SIZE_BYTES;
        let mut state = self.statements.state();
        let taken = self.statements.space.0.fetch_add(size, Ordering::Relaxed);
        if taken + size > RESULTS_SIZE_BYTES_MAX {
            self.statements.space.0.fetch_sub(size, Ordering::Relaxed);
            state.is_incomplete = true;
            return;
        }
        state.size_bytes += size;
        state.results.insert(statement, Arc::new(result));
    }
}
