//! Answers of the statements of a session's last retryable write, so that a repetition gets the same answer and writes nothing.
//!
//! They are kept in memory, and stored with the write. After a start of the server, the first command of a session that has a number reads
//! the stored answers of its last write. The results in memory of all sessions together are bounded. A session whose results were dropped
//! answers a repetition with error 217 and never writes twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardlake_account::collections::{Collections, SessionName, SessionWrite};
use shardlake_mql::Document;
use shardlake_stdx::Timestamp;

use tokio::sync::OwnedMutexGuard;

use super::open_transactions::{OpenTransactions, Phase};
use crate::errors::{Result, code, error, fail};

/// Maximum of all sessions together.
const RESULTS_SIZE_BYTES_MAX: usize = 128 << 20;
/// Size of an entry of the table without its document.
const ENTRY_SIZE_BYTES: usize = 64;

/// Memory for results of all sessions.
#[derive(Debug, Default)]
pub struct ResultSpace(AtomicUsize);

/// The statements of one session.
#[derive(Debug)]
pub struct Statements {
    state: Mutex<State>,
    /// The session's lock: a repetition waits until the command that it repeats has ended.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    space: Arc<ResultSpace>,
    pub(super) open: Arc<OpenTransactions>,
    name: SessionName,
    pub(super) user: Option<Arc<str>>,
    /// Answers stored before the server was started have been read, or are too old to be asked for.
    is_learned: AtomicBool,
}

/// Source from which a session learns of its writes before the server was started.
#[derive(Clone, Copy)]
pub struct Past<'p> {
    pub collections: &'p Collections,
    pub now: Timestamp,
    /// The server was started so recently that clients may still repeat writes of the time before.
    pub is_recent: bool,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The highest number that the session has used.
    pub number: Option<i64>,
    /// Set if the number is that of a transaction.
    pub transaction: Option<Phase>,
    results: HashMap<i32, Arc<Document>>,
    size_bytes: usize,
    /// Results were dropped for lack of memory. A statement without a result may have been written.
    is_incomplete: bool,
}

/// The statements of one retryable command.
#[derive(Debug)]
pub struct RetryableWrite {
    statements: Arc<Statements>,
    number: i64,
    _turn: OwnedMutexGuard<()>,
}

impl Statements {
    pub fn new(
        (space, open): (Arc<ResultSpace>, Arc<OpenTransactions>),
        (name, user): (SessionName, Option<Arc<str>>),
    ) -> Statements {
        let (state, turn, is_learned) = (Mutex::default(), Arc::default(), AtomicBool::new(false));
        Statements { state, turn, space, open, name, user, is_learned }
    }

    /// Begins, or repeats, the write of this number.
    pub async fn begin(self: &Arc<Self>, number: i64, past: Past<'_>) -> Result<RetryableWrite> {
        if number < 0 {
            fail!(code::INVALID_OPTIONS, "Transaction number cannot be negative: {number}");
        }
        let turn = self.turn_with(past).await?;
        let comes_again = self.state().number == Some(number);
        if comes_again {
            self.learn_again(number, past).await?;
        }
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

    /// The session's lock, taken once its earlier writes are known.
    pub(super) async fn turn_with(&self, past: Past<'_>) -> Result<OwnedMutexGuard<()>> {
        let turn = self.turn.clone().lock_owned().await;
        if self.is_learned.load(Ordering::Acquire) {
            return Ok(turn);
        }
        if past.is_recent
            && let Some(kept) = past.collections.kept_answers(self.name, past.now, false).await?
        {
            let mut state = self.state();
            debug_assert_eq!(state.number, None, "a session learns before its first number");
            let phase = kept.is_committed.then_some(Phase::Committed);
            self.renumber(&mut state, kept.number, phase);
            self.keep_all(&mut state, kept.answers);
        }
        self.is_learned.store(true, Ordering::Release);
        Ok(turn)
    }

    /// Reads the stored answers for a repeated write, which may have been cancelled after its commit was queued and before it was answered.
    async fn learn_again(&self, number: i64, past: Past<'_>) -> Result<()> {
        let kept = past.collections.kept_answers(self.name, past.now, true).await?;
        if let Some(kept) = kept.filter(|kept| kept.number == number) {
            self.keep_all(&mut self.state(), kept.answers);
        }
        Ok(())
    }

    fn keep_all(&self, state: &mut State, answers: Vec<(i32, Document)>) {
        for (statement, answer) in answers {
            if !state.results.contains_key(&statement) {
                self.keep(state, statement, answer);
            }
        }
    }

    fn keep(&self, state: &mut State, statement: i32, result: Document) {
        let size = result.size() + ENTRY_SIZE_BYTES;
        let taken = self.space.0.fetch_add(size, Ordering::Relaxed);
        if taken + size > RESULTS_SIZE_BYTES_MAX {
            self.space.0.fetch_sub(size, Ordering::Relaxed);
            state.is_incomplete = true;
            return;
        }
        state.size_bytes += size;
        state.results.insert(statement, Arc::new(result));
    }

    /// A write of this session, under which its answers are stored.
    pub(super) fn write(&self, number: i64, now: Timestamp) -> SessionWrite {
        SessionWrite { session: self.name, number, now }
    }

    /// Moves to a higher number, and ends an open transaction.
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
    /// The statement's answer if it ran before, else `None`.
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

    /// Keeps the answer of a statement. To be called once the write is acknowledged, without an await in between.
    pub fn record(&self, statement: i32, result: Document) {
        self.statements.keep(&mut self.statements.state(), statement, result);
    }

    /// The write under which its answers are stored.
    pub fn write(&self, now: Timestamp) -> SessionWrite {
        self.statements.write(self.number, now)
    }
}
