//! Running commands by number, so that they can be listed and killed.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use shardlake_account::collections::Ending;
use shardlake_mql::Str;
use tokio::sync::Notify;

use crate::sessions::SessionKey;

/// Properties of a command that are known when it begins.
#[derive(Debug, Clone)]
pub struct Work {
    pub command: &'static str,
    pub database: Str,
    pub connection: i32,
    pub session: Option<SessionKey>,
    /// Changes no data, so it is useless once its client has closed the connection.
    pub is_read: bool,
    /// In terms of the account's clock.
    pub started: Duration,
}

/// A running command.
#[derive(Debug, Clone)]
pub struct Operation {
    pub number: i32,
    pub work: Work,
    end: Arc<End>,
}

/// Reason to end a command before its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// By `killOp`, or with its session.
    Killed,
    ClientGone,
}

#[derive(Debug, Default)]
pub struct End {
    wanted: Notify,
    reason: OnceLock<Interruption>,
}

#[derive(Debug, Default)]
pub struct Operations {
    table: Mutex<Vec<Operation>>,
    last: AtomicI32,
}

/// Removes the operation from the list when the command ends in any way.
pub struct AtWork<'o> {
    operations: &'o Operations,
    number: i32,
    end: Arc<End>,
}

impl Operations {
    fn table(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, work: Work, end: Arc<End>) -> AtWork<'_> {
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
        self.table().push(Operation { number, work, end: end.clone() });
        AtWork { operations: self, number, end }
    }

    /// Running commands, oldest number first.
    pub fn list(&self) -> Vec<Operation> {
        let mut running = self.table().clone();
        running.sort_unstable_by_key(|operation| operation.number);
        running
    }

    /// Ends a command, if it is running.
    pub fn kill(&self, number: i32) {
        if let Some(operation) = self.table().iter().find(|operation| operation.number == number) {
            operation.end.begin(Interruption::Killed);
        }
    }

    /// Ends the commands of sessions.
    pub fn kill_of_sessions(&self, ends: impl Fn(&SessionKey) -> bool) {
        let table = self.table();
        let killed = table.iter().filter(|operation| operation.work.session.as_ref().is_some_and(&ends));
        killed.for_each(|operation| operation.end.begin(Interruption::Killed));
    }

    /// Ends the reads of a connection that its client has closed. Writes continue.
    pub fn end_reads_of(&self, connection: i32) {
        let table = self.table();
        let reads = table.iter().filter(|operation| operation.work.is_read);
        let ended = reads.filter(|operation| operation.work.connection == connection);
        ended.for_each(|operation| operation.end.begin(Interruption::ClientGone));
    }
}

impl Ending for End {
    fn is_wanted(&self) -> bool {
        self.reason.get().is_some()
    }
}

impl End {
    fn begin(&self, reason: Interruption) {
        // The first reason stays.
        let _known = self.reason.set(reason);
        // It is remembered where the command does not wait for it yet.
        self.wanted.notify_one();
    }
}

impl AtWork<'_> {
    /// Whether the command is to end.
    pub fn interruption(&self) -> Option<Interruption> {
        self.end.reason.get().copied()
    }

    /// Waits until the command is to end.
    pub async fn interrupted(&self) -> Interruption {
        self.end.wanted.notified().await;
        self.interruption().unwrap_or(Interruption::Killed)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut table = self.operations.table();
        // Mostly one of the last.
        if let Some(place) = table.iter().rposition(|operation| operation.number == self.number) {
            table.swap_remove(place);
        }
    }
}
