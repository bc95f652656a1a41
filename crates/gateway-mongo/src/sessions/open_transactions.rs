//! Open transactions: their limits, their shares of the server, and the phase of each.

use std::sync::Arc;
use std::time::Duration;

use shardlake_account::{OpenTransaction, TransactionSpace};
use shardlake_stdx::Timestamp;

use crate::errors::{Result, TRANSIENT_TRANSACTION, code, error};
use crate::shares::{Share, Shares};

/// How long transactions may last, and how many may be open.
#[derive(Debug, Clone, Copy)]
pub struct TransactionLimits {
    pub lifetime_max: Duration,
    /// Between two commands.
    pub idle_max: Duration,
    pub count_max: usize,
    /// Memory for the writes of all open transactions.
    pub size_bytes_max: usize,
}

impl Default for TransactionLimits {
    fn default() -> Self {
        TransactionLimits {
            lifetime_max: Duration::from_secs(60),
            idle_max: Duration::from_secs(30),
            count_max: 1000,
            size_bytes_max: 256 << 20,
        }
    }
}

/// The transactions that are open in all sessions.
#[derive(Debug)]
pub struct OpenTransactions {
    shares: Shares,
    space: Arc<TransactionSpace>,
    limits: TransactionLimits,
}

impl OpenTransactions {
    pub fn new(limits: TransactionLimits) -> OpenTransactions {
        let space = Arc::new(TransactionSpace::new(limits.size_bytes_max));
        OpenTransactions { shares: Shares::new(limits.count_max), space, limits }
    }

    pub fn count(&self) -> usize {
        self.shares.count()
    }
}

/// State of a session's transaction.
#[derive(Debug)]
pub(super) enum Phase {
    /// Between two commands.
    Idle(Open),
    /// A command is running in it.
    AtWork,
    Committed,
    Aborted,
    /// Its commit failed with an unknown outcome.
    InDoubt,
}

/// An open transaction. Dropping it aborts the transaction.
#[derive(Debug)]
pub(super) struct Open {
    pub transaction: Arc<OpenTransaction>,
    /// Its reads see every commit before this time.
    pub seen_before: Timestamp,
    begun: Duration,
    last_used: Duration,
    limits: TransactionLimits,
    _share: Share,
}

impl Open {
    pub fn begin(all: &OpenTransactions, user: Option<&Arc<str>>, now: Duration) -> Result<Open> {
        let share = all.shares.take(user).map_err(|full| {
            let held = full.held;
            // Drivers repeat the transaction after a pause.
            error!(
                code::WRITE_CONFLICT,
                "this user has {held} open transactions, and the rest is for other users: retry when some have ended"
            )
            .with_label(TRANSIENT_TRANSACTION)
        })?;
        Ok(Open {
            transaction: Arc::new(OpenTransaction::new(all.space.clone())),
            seen_before: Timestamp::default(),
            begun: now,
            last_used: now,
            limits: all.limits,
            _share: share,
        })
    }

    pub fn has_expired(&self, now: Duration) -> bool {
        let limits = &self.limits;
        now.saturating_sub(self.begun) >= limits.lifetime_max
            || now.saturating_sub(self.last_used) >= limits.idle_max
    }

    pub fn used(mut open: Open, now: Duration) -> Open {
        open.last_used = now;
        open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.transaction.abort();
    }
}
