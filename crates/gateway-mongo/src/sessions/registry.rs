//! The logical sessions of a server: made at first use, and ended by their clients, by users with the right to kill them, or after a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use shardlake_account::collections::SessionName;
use shardlake_stdx::{Clock, Random};

use super::open_transactions::{OpenTransactions, TransactionLimits};
use super::statements::{ResultSpace, Statements};
use crate::arguments::SessionId;
use crate::errors::{Result, code, error};
use crate::last_request::LastRequest;
use crate::shares::{Share, Shares};

/// How long a session lives after its last use, as the handshake reports it.
pub const TIMEOUT_MINUTES: i32 = 30;

#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    pub count_max: usize,
    pub idle_max: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits { count_max: 100_000, idle_max: Duration::from_secs(TIMEOUT_MINUTES as u64 * 60) }
    }
}

/// Key of a session. The same id of two users names two sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    pub id: SessionId,
    /// `None` on a server without authentication.
    pub user: Option<Arc<str>>,
}

impl SessionKey {
    /// Hash that stands for the session in stored data.
    fn digest(&self) -> SessionName {
        let mut hash = Sha256::new();
        hash.update(self.id.0);
        hash.update(self.user.as_deref().unwrap_or_default());
        let digest = hash.finalize();
        SessionName(*digest.first_chunk().expect("it has 32 bytes"))
    }
}

#[derive(Debug)]
pub struct Session {
    pub key: SessionKey,
    pub statements: Arc<Statements>,
    last_request: Mutex<Option<LastRequest>>,
}

impl Session {
    /// Cost of its last command.
    pub fn last_request(&self) -> Option<LastRequest> {
        *self.last_request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note_request(&self, last: LastRequest) {
        *self.last_request.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }
}

pub struct Sessions {
    table: Mutex<HashMap<SessionKey, Entry>>,
    space: Arc<ResultSpace>,
    open: Arc<OpenTransactions>,
    clock: Clock,
    random: Random,
    limits: SessionLimits,
    shares: Shares,
}

struct Entry {
    session: Arc<Session>,
    last_used: Duration,
    _share: Share,
}

impl Sessions {
    pub fn new(
        clock: Clock,
        random: Random,
        limits: SessionLimits,
        transactions: TransactionLimits,
    ) -> Sessions {
        let open = Arc::new(OpenTransactions::new(transactions));
        let shares = Shares::new(limits.count_max);
        Sessions { table: Mutex::default(), space: Arc::default(), open, clock, random, limits, shares }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SessionKey, Entry>> {
        // Changes are made whole under the lock, so a panic leaves nothing half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session of a user.
    pub fn start(&self, user: Option<Arc<str>>) -> Result<Arc<Session>> {
        let id = SessionId(self.random.guid().0);
        self.enter(SessionKey { id, user })
    }

    /// The session of this key, which is created if missing. Its time to live starts again.
    pub fn enter(&self, key: SessionKey) -> Result<Arc<Session>> {
        let now = self.clock.elapsed();
        let mut table = self.table();
        if let Some(entry) = table.get_mut(&key) {
            if now.saturating_sub(entry.last_used) < self.limits.idle_max {
                entry.last_used = now;
                return Ok(entry.session.clone());
            }
            table.remove(&key);
        }
        let share = self.shares.take(key.user.as_ref()).or_else(|_| {
            remove_idle(&mut table, now, self.limits.idle_max);
            self.shares.take(key.user.as_ref())
        });
        let share = share.map_err(|full| {
            let held = full.held;
            error!(
                code::TOO_MANY_SESSIONS,
                "this user has {held} sessions, and the rest is for other users: end some with endSessions"
            )
        })?;
        let shared = (self.space.clone(), self.open.clone());
        let statements = Arc::new(Statements::new(shared, (key.digest(), key.user.clone())));
        let session = Arc::new(Session { key: key.clone(), statements, last_request: Mutex::default() });
        table.insert(key, Entry { session: session.clone(), last_used: now, _share: share });
        assert!(table.len() <= self.shares.count(), "each session has a share");
        Ok(session)
    }

    /// Restarts the time to live of existing sessions.
    pub fn refresh<'k>(&self, keys: impl IntoIterator<Item = &'k SessionKey>) {
        let now = self.clock.elapsed();
        let mut table = self.table();
        for key in keys {
            if let Some(entry) = table.get_mut(key) {
                entry.last_used = now;
            }
        }
    }

    /// Ends the sessions that `ends` selects, with their transactions. The caller ends their cursors.
    pub fn end(&self, ends: impl Fn(&SessionKey) -> bool) {
        let mut ended = Vec::new();
        self.table().retain(|key, entry| {
            let is_kept = !ends(key);
            if !is_kept {
                ended.push(entry.session.clone());
            }
            is_kept
        });
        ended.iter().for_each(|session| session.statements.kill_transaction());
    }

    /// Ends transactions that were idle or open for too long.
    pub fn expire_transactions(&self) {
        if self.open.count() == 0 {
            return;
        }
        let now = self.clock.elapsed();
        let sessions: Vec<Arc<Session>> = self.table().values().map(|entry| entry.session.clone()).collect();
        sessions.iter().for_each(|session| session.statements.expire_transaction(now));
    }

    /// Ends sessions that were idle for too long, and returns their keys.
    pub fn expire(&self) -> Vec<SessionKey> {
        let now = self.clock.elapsed();
        remove_idle(&mut self.table(), now, self.limits.idle_max)
    }

    /// The sessions that are open, each with the time of its last use.
    pub fn list(&self) -> Vec<(SessionKey, Duration)> {
        let table = self.table();
        let mut listed: Vec<(SessionKey, Duration)> =
            table.iter().map(|(key, entry)| (key.clone(), entry.last_used)).collect();
        listed.sort_unstable_by_key(|(listed, _)| listed.id);
        listed
    }

    pub fn count(&self) -> usize {
        self.table().len()
    }
}

fn remove_idle(table: &mut HashMap<SessionKey, Entry>, now: Duration, idle_max: Duration) -> Vec<SessionKey> {
    let is_idle = |entry: &Entry| now.saturating_sub(entry.last_used) >= idle_max;
    let idle: Vec<SessionKey> =
        table.iter().filter(|(_, entry)| is_idle(entry)).map(|(key, _)| key.clone()).collect();
    idle.iter().for_each(|key| {
        table.remove(key);
    });
    idle
}
