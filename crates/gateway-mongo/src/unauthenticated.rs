//! Connections whose clients have to authenticate and have not: strangers, clients that are about to, and the connections by which
//! drivers watch a server, which never do.
//!
//! Their number is bounded. At the bound, a new connection ends the connection that has been silent for the longest time. Strangers that
//! hold connections therefore keep no client from authenticating, which takes milliseconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug)]
pub struct Unauthenticated {
    max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_connection: HashMap<i32, Entry>,
    /// Grows with every message, and orders them.
    messages: u64,
}

#[derive(Debug)]
struct Entry {
    last_message: u64,
    ended: Arc<Notify>,
}

impl Unauthenticated {
    pub fn new(max: usize) -> Unauthenticated {
        Unauthenticated { max: max.max(1), table: Mutex::default() }
    }

    /// A connection has begun, or its client has logged out. The connection ends when `ended` is notified.
    pub fn enter(&self, connection: i32, ended: Arc<Notify>) {
        let mut table = self.table();
        if table.by_connection.len() >= self.max {
            table.end_the_quietest();
        }
        table.messages += 1;
        let entry = Entry { last_message: table.messages, ended };
        table.by_connection.insert(connection, entry);
    }

    /// The client has sent a message.
    pub fn heard(&self, connection: i32) {
        let mut table = self.table();
        table.messages += 1;
        let now = table.messages;
        if let Some(entry) = table.by_connection.get_mut(&connection) {
            entry.last_message = now;
        }
    }

    /// The client has authenticated, or the connection has ended.
    pub fn leave(&self, connection: i32) {
        self.table().by_connection.remove(&connection);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Changes are made whole under the lock, so a panic leaves nothing half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn end_the_quietest(&mut self) {
        let quietest = self.by_connection.iter().min_by_key(|(_, entry)| entry.last_message);
        let Some(quietest) = quietest.map(|(connection, _)| *connection) else { return };
        if let Some(entry) = self.by_connection.remove(&quietest) {
            // It is remembered where the connection does not wait for it yet.
            entry.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_connection_ends_the_one_that_was_silent_for_longest() {
        let all = Unauthenticated::new(2);
        let enter = |connection| {
            let ended = Arc::new(Notify::new());
            all.enter(connection, ended.clone());
            ended
        };
        let (_first, second) = (enter(1), enter(2));
        all.heard(1);
        let third = enter(3);
        second.notified().await;
        assert_eq!(all.table().by_connection.len(), 2);
        all.leave(1);
        let _fourth = enter(4);
        assert_eq!(all.table().by_connection.len(), 2);
        let _fifth = enter(5);
        third.notified().await;
    }
}
