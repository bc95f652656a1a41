//! The transaction of a session: at most one, which has the session's highest number.
//!
//! ```text
//!              begin                      commit
//! no number ──────────► at work ◄──► idle ───────► committed
//!                          │          │     ╲ failed, outcome unknown
//!                          ▼          ▼      ▼
//!                        aborted ◄────┘    in doubt
//! ```
//!
//! A command takes the transaction with the session's lock and gives it back when it has succeeded. If it ends otherwise, the
//! transaction is aborted. An idle transaction is aborted by time, by the end of its session, and by a higher number.

use std::sync::Arc;
use std::time::Duration;

use shardlake_account::OpenTransaction;
use shardlake_stdx::Timestamp;
use tokio::sync::OwnedMutexGuard;

use super::open_transactions::{Open, Phase};
use super::statements::{Past, Statements};
use crate::errors::{CommandError, Result, TRANSIENT_TRANSACTION, code, error, fail};

/// A command's exclusive use of its transaction. Dropping it without `keep` or `commit` aborts the transaction.
#[derive(Debug)]
pub struct TransactionTurn {
    statements: Arc<Statements>,
    number: i64,
    open: Option<Open>,
    _turn: OwnedMutexGuard<()>,
}

/// Transaction that a command is to end.
#[derive(Debug)]
pub enum Ending {
    /// Boxed, because the other variants are empty.
    Open(Box<TransactionTurn>),
    Committed,
    /// The server remembers no number of the session, so the transaction may have been committed long ago.
    Unknown,
}

fn no_such(number: i64, why: &str) -> CommandError {
    error!(code::NO_SUCH_TRANSACTION, "Transaction with {{ txnNumber: {number} }} {why}")
        .with_label(TRANSIENT_TRANSACTION)
}

fn too_old(number: i64, highest: i64) -> CommandError {
    error!(code::TRANSACTION_TOO_OLD, "Cannot run in transaction {number}: the session has used {highest}")
}

fn no_match(number: i64) -> CommandError {
    error!(
        code::NO_SUCH_TRANSACTION,
        "Given transaction number {number} does not match any in-progress transactions."
    )
    .with_label(TRANSIENT_TRANSACTION)
}

impl Statements {
    /// Begins the transaction of a number that the session has not used.
    pub async fn begin_transaction(
        self: &Arc<Self>,
        number: i64,
        now: Duration,
        past: Past<'_>,
    ) -> Result<TransactionTurn> {
        if number < 0 {
            fail!(code::INVALID_OPTIONS, "Transaction number cannot be negative: {number}");
        }
        let turn = self.turn_with(past).await?;
        let mut state = self.state();
        match state.number {
            Some(highest) if number < highest => return Err(too_old(number, highest)),
            Some(highest) if number == highest => {
                fail!(code::CONFLICTING_OPERATION, "The session has used the number {number} already")
            }
            _ => {}
        }
        let open = Open::begin(&self.open, self.user.as_ref(), now)?;
        self.renumber(&mut state, number, Some(Phase::AtWork));
        drop(state);
        Ok(TransactionTurn { statements: self.clone(), number, open: Some(open), _turn: turn })
    }

    /// Continues a transaction.
    pub async fn resume_transaction(
        self: &Arc<Self>,
        number: i64,
        now: Duration,
        past: Past<'_>,
    ) -> Result<TransactionTurn> {
        match self.end_transaction(number, now, past).await? {
            Ending::Open(turn) => Ok(*turn),
            Ending::Committed => Err(error!(
                code::TRANSACTION_COMMITTED,
                "Transaction with {{ txnNumber: {number} }} has been committed."
            )),
            Ending::Unknown => Err(no_match(number)),
        }
    }

    /// Takes the transaction that a command is to end, or returns how it has ended.
    pub async fn end_transaction(
        self: &Arc<Self>,
        number: i64,
        now: Duration,
        past: Past<'_>,
    ) -> Result<Ending> {
        let turn = self.turn_with(past).await?;
        let mut state = self.state();
        match state.number {
            Some(highest) if number < highest => return Err(too_old(number, highest)),
            Some(highest) if number > highest => return Err(no_match(number)),
            // The stored answers of a committed transaction would have given the session its number.
            None if past.is_recent => return Err(no_match(number)),
            None => return Ok(Ending::Unknown),
            Some(_) => {}
        }
        let Some(phase) = &mut state.transaction else { return Err(no_match(number)) };
        if let Phase::Idle(open) = phase
            && open.has_expired(now)
        {
            *phase = Phase::Aborted;
        }
        match phase {
            Phase::Idle(_) => {}
            Phase::AtWork | Phase::Aborted => return Err(no_such(number, "has been aborted.")),
            Phase::Committed => return Ok(Ending::Committed),
            Phase::InDoubt => fail!(
                code::INTERRUPTED_AT_SHUTDOWN,
                "the commit of transaction {number} failed: whether it is there shows when the server is started again"
            ),
        }
        let Phase::Idle(open) = std::mem::replace(phase, Phase::AtWork) else {
            return Err(no_such(number, "has been aborted."));
        };
        drop(state);
        let turn = TransactionTurn { statements: self.clone(), number, open: Some(open), _turn: turn };
        Ok(Ending::Open(Box::new(turn)))
    }

    /// Aborts the transaction; a command that runs in it notices this later.
    pub fn kill_transaction(&self) {
        if let Some(phase @ (Phase::Idle(_) | Phase::AtWork)) = &mut self.state().transaction {
            *phase = Phase::Aborted;
        }
    }

    /// Ends a transaction that was open or idle for too long.
    pub fn expire_transaction(&self, now: Duration) {
        if let Some(phase) = &mut self.state().transaction
            && let Phase::Idle(open) = phase
            && open.has_expired(now)
        {
            *phase = Phase::Aborted;
        }
    }
}

impl TransactionTurn {
    pub fn transaction(&self) -> &Arc<OpenTransaction> {
        &self.open.as_ref().expect("it has the transaction until it ends").transaction
    }

    pub fn number(&self) -> i64 {
        self.number
    }

    /// Time before which the transaction sees every commit. Its first command sets it.
    pub fn seen_before(&mut self, first: Option<Timestamp>) -> Timestamp {
        let open = self.open.as_mut().expect("it has the transaction until it ends");
        open.seen_before = first.unwrap_or(open.seen_before);
        open.seen_before
    }

    /// The command has succeeded: the transaction continues.
    pub fn keep(mut self, now: Duration) {
        if let Some(open) = self.open.take() {
            self.give_back(Phase::Idle(Open::used(open, now)));
        }
    }

    /// Commits, and records the outcome even if the client no longer waits for it.
    pub async fn commit(mut self, now: Timestamp) -> Result<(), shardlake_account::Uncommitted> {
        let row = self.statements.write(self.number, now).commit_row();
        let outcome = self.transaction().commit(Some(row)).await;
        self.give_back(match &outcome {
            Ok(()) => Phase::Committed,
            Err(failure) if failure.is_in_doubt => Phase::InDoubt,
            Err(_) => Phase::Aborted,
        });
        self.open = None;
        outcome
    }

    /// Sets the phase after a command, unless the transaction was ended meanwhile. A commit that succeeded or is in doubt always counts.
    fn give_back(&self, phase: Phase) {
        let mut state = self.statements.state();
        let is_own = state.number == Some(self.number);
        let is_final = matches!(phase, Phase::Committed | Phase::InDoubt);
        if is_own && (is_final || matches!(state.transaction, Some(Phase::AtWork))) {
            state.transaction = Some(phase);
        }
    }
}

impl Drop for TransactionTurn {
    fn drop(&mut self) {
        if self.open.take().is_some() {
            self.give_back(Phase::Aborted);
        }
    }
}
