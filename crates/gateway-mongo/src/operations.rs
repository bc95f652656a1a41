//! The commands that are being carried out, by numbers, so that they can be looked at and ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// A command at work.
#[derive(Debug, Clone)]
pub struct Operation {
    pub number: i32,
    pub command: &'static str,
    pub database: String,
    pub connection: i32,
    /// In terms of the account's clock.
    pub started: Duration,
    killed: Arc<Notify>,
}

#[derive(Debug, Default)]
pub struct Operations {
    table: Mutex<BTreeMap<i32, Operation>>,
    last: AtomicI32,
}

/// Takes the operation out when the command ends, however it does.
pub struct AtWork<'o> {
    operations: &'o Operations,
    number: i32,
    killed: Arc<Notify>,
}

impl Operations {
    fn table(&self) -> MutexGuard<'_, BTreeMap<i32, Operation>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(
        &self,
        (command, database): (&'static str, &str),
        connection: i32,
        started: Duration,
    ) -> AtWork<'_> {
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
        let killed = Arc::new(Notify::new());
        let database = database.to_owned();
        let operation = Operation { number, command, database, connection, started, killed: killed.clone() };
        self.table().insert(number, operation);
        AtWork { operations: self, number, killed }
    }

    /// Those at work, oldest number first.
    pub fn list(&self) -> Vec<Operation> {
        self.table().values().cloned().collect()
    }

    /// Ends a command, if it is at work.
    pub fn kill(&self, number: i32) {
        if let Some(operation) = self.table().get(&number) {
            // It is remembered where the command does not wait for it yet.
            operation.killed.notify_one();
        }
    }
}

impl AtWork<'_> {
    /// Waits until somebody wants the command to end.
    pub async fn killed(&self) {
        self.killed.notified().await;
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.operations.table().remove(&self.number);
    }
}
