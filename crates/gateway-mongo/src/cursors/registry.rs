//! Registry of the server's open cursors: the owner of each, its last use, and its end.
//!
//! An idle cursor is in the registry. `getMore` takes it out and puts it back ([`Borrowed`]). A cursor that is killed
//! while it is out is not put back. One lock guards the table, and nothing is awaited under it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardlake_stdx::{Clock, Random};
use tokio::sync::Notify;

use super::source::{Batch, BatchSource, Wants};
use crate::arguments::SessionId;
use crate::errors::{CommandError, Result, code, error, fail};
use crate::memory::{Hold, Room};
use crate::shares::{Share, Shares};

/// Client that may continue a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `None` on a server without authentication.
    pub user: Option<Arc<str>>,
    /// `None` where the command that opened it had none.
    pub session: Option<SessionId>,
    /// The number of the transaction, where it was opened in one.
    pub transaction: Option<i64>,
}

/// Limits on the idle time and the number of cursors.
#[derive(Debug, Clone, Copy)]
pub struct CursorLimits {
    pub idle_max: Duration,
    pub count_max: usize,
}

impl Default for CursorLimits {
    fn default() -> Self {
        CursorLimits { idle_max: Duration::from_secs(600), count_max: 10_000 }
    }
}

/// A cursor to be opened.
pub struct NewCursor {
    /// `database.collection`.
    pub namespace: String,
    pub owner: Owner,
    pub source: Box<dyn BatchSource>,
    /// It ends with its session and not before.
    pub is_kept: bool,
    /// The connection that it ends with, if it has no session.
    pub connection: i32,
    /// Its batches evaluate expressions of its client: see `offload.rs`.
    pub is_evaluated: bool,
}

pub struct Cursors {
    table: Arc<Mutex<HashMap<i64, Entry>>>,
    clock: Clock,
    random: Random,
    limits: CursorLimits,
    shares: Shares,
    room: Room,
}

struct Entry {
    namespace: String,
    owner: Owner,
    is_kept: bool,
    connection: i32,
    last_used: Duration,
    is_stream: bool,
    is_evaluated: bool,
    state: State,
    hold: Hold,
    _share: Share,
}

enum State {
    Idle(Box<dyn BatchSource>),
    /// A command reads from it, and ends when this is notified.
    Borrowed(Arc<Notify>),
    /// Its collection was dropped or renamed. The next command returns this reason; `reader` ends a command that still reads.
    Ended {
        reason: &'static str,
        reader: Option<Arc<Notify>>,
    },
}

/// Outcome of killing a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    Yes,
    NotFound,
    /// It belongs to another client.
    Alive,
}

impl Cursors {
    /// `room` is the memory budget for results that cursors keep.
    pub fn new(clock: Clock, random: Random, limits: CursorLimits, room: Room) -> Cursors {
        let shares = Shares::new(limits.count_max);
        Cursors { table: Arc::default(), clock, random, limits, shares, room }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<i64, Entry>> {
        locked(&self.table)
    }

    /// Keeps a cursor for its owner, and returns its id.
    pub fn open(&self, cursor: NewCursor) -> Result<i64> {
        let now = self.clock.elapsed();
        let held_bytes = cursor.source.held_bytes();
        let mut table = self.table();
        let user = cursor.owner.user.as_ref();
        let share = self.shares.take(user).or_else(|_| {
            remove_idle(&mut table, now, self.limits.idle_max);
            self.shares.take(user)
        });
        let share = share.map_err(|full| {
            let held = full.held;
            error!(
                code::TOO_MANY_REQUESTS,
                "this user has {held} open cursors, and the rest is for other users: read some to their end, or kill them"
            )
        })?;
        let mut hold = Hold::default();
        if !self.room.resize(&mut hold, held_bytes) {
            return Err(no_room());
        }
        let id = loop {
            let id = (self.random.u64() >> 1) as i64;
            if id != 0 && !table.contains_key(&id) {
                break id;
            }
        };
        assert!(id > 0, "a cursor has a positive number, and zero is the end of a result");
        let NewCursor { namespace, owner, source, is_kept, connection, is_evaluated } = cursor;
        let (is_stream, state) = (source.is_stream(), State::Idle(source));
        let last_used = now;
        let entry = Entry {
            namespace,
            owner,
            is_kept,
            connection,
            last_used,
            is_stream,
            is_evaluated,
            state,
            hold,
            _share: share,
        };
        table.insert(id, entry);
        assert!(table.len() <= self.shares.count(), "each open cursor has a share");
        Ok(id)
    }

    /// Takes a cursor out to read from it.
    pub fn borrow(&self, id: i64, namespace: &str, owner: &Owner) -> Result<Borrowed> {
        let now = self.clock.elapsed();
        let mut table = self.table();
        remove_if_idle(&mut table, id, now, self.limits.idle_max);
        let Some(entry) = table.get_mut(&id) else {
            fail!(code::CURSOR_NOT_FOUND, "cursor id {id} not found");
        };
        entry.check(id, namespace, owner)?;
        if let State::Ended { reason, reader: None } = entry.state {
            table.remove(&id);
            fail!(code::QUERY_PLAN_KILLED, "{reason}");
        }
        if entry.reader().is_some() {
            fail!(code::CURSOR_IN_USE, "cursor id {id} is already in use");
        }
        let killed = Arc::new(Notify::new());
        let State::Idle(source) = std::mem::replace(&mut entry.state, State::Borrowed(killed.clone())) else {
            fail!(code::CURSOR_IN_USE, "cursor id {id} is already in use");
        };
        let (table, clock) = (self.table.clone(), self.clock.clone());
        Ok(Borrowed { id, source: Some(source), killed, table, clock, room: self.room.clone() })
    }

    /// Kills a cursor by its id. The collection that the command names is not checked.
    pub fn kill(&self, id: i64, owner: &Owner) -> Killed {
        let mut table = self.table();
        match table.get(&id) {
            Some(entry) if entry.owner.user != owner.user => Killed::Alive,
            Some(_) => {
                table.remove(&id).iter().for_each(Entry::end_reader);
                Killed::Yes
            }
            None => Killed::NotFound,
        }
    }

    /// Ends the cursors of sessions that ended.
    pub fn kill_of_sessions(&self, ended: impl Fn(&Owner) -> bool) {
        self.kill_those(|entry| ended(&entry.owner));
    }

    /// Ends the cursors without a session of a connection that ended.
    pub fn kill_of_connection(&self, connection: i32) {
        self.kill_those(|entry| entry.owner.session.is_none() && entry.connection == connection);
    }

    fn kill_those(&self, ends: impl Fn(&Entry) -> bool) {
        self.table().retain(|_, entry| {
            let ends = ends(entry);
            if ends {
                entry.end_reader();
            }
            !ends
        });
    }

    /// Whether there is such a change stream.
    pub fn is_stream(&self, id: i64) -> bool {
        self.table().get(&id).is_some_and(|entry| entry.is_stream)
    }

    /// Whether there is such a cursor, and its batches evaluate expressions.
    pub fn is_evaluated(&self, id: i64) -> bool {
        self.table().get(&id).is_some_and(|entry| entry.is_evaluated)
    }

    /// Ends the cursors of dropped or renamed collections, whose namespaces `is_gone` selects. Their next use returns the reason.
    /// Change streams stay open and return the drop or rename as an event.
    pub fn end_of_namespaces(&self, is_gone: impl Fn(&str) -> bool, reason: &'static str) {
        let mut table = self.table();
        let ended = table.values_mut().filter(|entry| !entry.is_stream && is_gone(&entry.namespace));
        for entry in ended {
            let reader = entry.reader().cloned();
            if reader.is_none() {
                entry.hold = Hold::default();
            }
            entry.state = State::Ended { reason, reader };
        }
    }

    /// Ends cursors that were idle for too long.
    pub fn expire(&self) {
        let now = self.clock.elapsed();
        remove_idle(&mut self.table(), now, self.limits.idle_max);
    }

    /// Cursors that no command reads from, by id, with their namespaces.
    pub fn idle(&self) -> Vec<(i64, String)> {
        let table = self.table();
        let idle = table.iter().filter(|(_, entry)| matches!(entry.state, State::Idle(_)));
        let mut idle: Vec<(i64, String)> = idle.map(|(id, entry)| (*id, entry.namespace.clone())).collect();
        idle.sort_unstable();
        idle
    }

    pub fn count(&self) -> usize {
        self.table().len()
    }
}

impl Entry {
    fn check(&self, id: i64, namespace: &str, owner: &Owner) -> Result<()> {
        if self.namespace != namespace {
            let own = &self.namespace;
            fail!(
                code::UNAUTHORIZED,
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {own}"
            );
        }
        if self.owner.user != owner.user {
            fail!(code::UNAUTHORIZED, "cursor id {id} was not created by the authenticated user");
        }
        if self.owner.session != owner.session {
            fail!(
                code::CURSOR_OF_ANOTHER_SESSION,
                "Cannot run getMore on cursor {id}, which was created in another session, or without one"
            );
        }
        match (self.owner.transaction, owner.transaction) {
            (own, asking) if own == asking => {}
            (None, Some(number)) => fail!(
                code::CURSOR_OF_NO_TRANSACTION,
                "Cannot run getMore on cursor {id}, which was not created in a transaction, in transaction {number}"
            ),
            (Some(number), None) => fail!(
                code::CURSOR_OF_A_TRANSACTION,
                "Cannot run getMore on cursor {id}, which was created in transaction {number}, without a txnNumber"
            ),
            (own, _) => fail!(
                code::CURSOR_OF_ANOTHER_TRANSACTION,
                "Cannot run getMore on cursor {id}, which was created in transaction {}, in another one",
                own.unwrap_or_default()
            ),
        }
        Ok(())
    }

    /// Ends the command that reads from the cursor.
    fn reader(&self) -> Option<&Arc<Notify>> {
        match &self.state {
            State::Borrowed(killed) => Some(killed),
            State::Ended { reader, .. } => reader.as_ref(),
            State::Idle(_) => None,
        }
    }

    fn end_reader(&self) {
        if let Some(killed) = self.reader() {
            // It is remembered where the command does not wait for it yet.
            killed.notify_one();
        }
    }

    fn is_idle(&self, now: Duration, idle_max: Duration) -> bool {
        self.reader().is_none() && !self.is_kept && now.saturating_sub(self.last_used) >= idle_max
    }
}

fn remove_idle(table: &mut HashMap<i64, Entry>, now: Duration, idle_max: Duration) {
    table.retain(|_, entry| !entry.is_idle(now, idle_max));
}

fn remove_if_idle(table: &mut HashMap<i64, Entry>, id: i64, now: Duration, idle_max: Duration) {
    if table.get(&id).is_some_and(|entry| entry.is_idle(now, idle_max)) {
        table.remove(&id);
    }
}

fn no_room() -> CommandError {
    error!(
        code::TOO_MANY_REQUESTS,
        "open cursors hold too much memory: read some to their end, or sort and group fewer documents"
    )
}

/// A change of the table is made whole under the lock, so a panic leaves nothing half done.
fn locked(table: &Mutex<HashMap<i64, Entry>>) -> MutexGuard<'_, HashMap<i64, Entry>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cursor that a command reads from. Dropping it, also with its command, puts the cursor back unchanged.
pub struct Borrowed {
    pub id: i64,
    source: Option<Box<dyn BatchSource>>,
    killed: Arc<Notify>,
    table: Arc<Mutex<HashMap<i64, Entry>>>,
    clock: Clock,
    room: Room,
}

impl Borrowed {
    pub fn source(&mut self) -> &mut dyn BatchSource {
        &mut **self.source.as_mut().expect("it is given back only when this is dropped")
    }

    /// The next batch, unless the cursor is killed while it is made.
    pub async fn next(&mut self, wants: &Wants) -> Result<Batch> {
        let killed = self.killed.clone();
        tokio::select! {
            biased;
            batch = self.source().next(wants) => batch,
            () = killed.notified() => Err(error!(code::CURSOR_KILLED, "cursor id {} was killed", self.id)),
        }
    }

    /// Returns the cursor after a batch, if the memory budget allows the results that it keeps.
    pub fn settle(mut self) -> Result<()> {
        let held_bytes = self.source().held_bytes();
        let has_room = match locked(&self.table).get_mut(&self.id) {
            Some(entry) => self.room.resize(&mut entry.hold, held_bytes),
            // It was killed.
            None => true,
        };
        if !has_room {
            self.close();
            return Err(no_room());
        }
        Ok(())
    }

    /// Closes the cursor after its last batch: it is not put back.
    pub fn close(mut self) {
        self.source = None;
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let mut table = locked(&self.table);
        match self.source.take() {
            Some(source) => {
                let Some(entry) = table.get_mut(&self.id) else { return };
                match &mut entry.state {
                    State::Ended { reader, .. } => {
                        *reader = None;
                        entry.hold = Hold::default();
                    }
                    state => *state = State::Idle(source),
                }
                entry.last_used = self.clock.elapsed();
            }
            None => {
                table.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use shardlake_stdx::Timestamp;

    use super::*;
    use crate::memory::Memory;

    /// Holds results, and its next batch never comes.
    struct Stalled;

    impl BatchSource for Stalled {
        fn next<'s>(&'s mut self, _: &'s Wants) -> BoxFuture<'s, Result<Batch>> {
            std::future::pending().boxed()
        }

        fn held_bytes(&self) -> usize {
            1 << 20
        }
    }

    fn cursors(memory: &Memory) -> Cursors {
        Cursors::new(
            Clock::manual(Timestamp(0)),
            Random::seeded(1),
            CursorLimits::default(),
            memory.cursors.clone(),
        )
    }

    fn owner() -> Owner {
        Owner { user: None, session: None, transaction: None }
    }

    fn open(cursors: &Cursors) -> i64 {
        let cursor = NewCursor {
            namespace: "d.c".to_owned(),
            owner: owner(),
            source: Box::new(Stalled),
            is_kept: true,
            connection: 1,
            is_evaluated: false,
        };
        cursors.open(cursor).expect("memory is free")
    }

    #[test]
    fn cursors_of_a_dropped_collection_release_their_memory() {
        let memory = Memory::new(64 << 20);
        let cursors = cursors(&memory);
        let (idle, read) = (open(&cursors), open(&cursors));
        let borrowed = cursors.borrow(read, "d.c", &owner()).expect("it is idle");
        assert_eq!(memory.held_bytes(), 2 << 20);
        cursors.end_of_namespaces(|name| name == "d.c", "collection dropped");
        assert_eq!(memory.held_bytes(), 1 << 20, "the command that reads has its results");
        borrowed.settle().expect("its batch was made");
        assert_eq!(memory.held_bytes(), 0);
        for id in [idle, read] {
            let refused = cursors.borrow(id, "d.c", &owner()).err().expect("it ended");
            assert!(refused.to_string().contains("collection dropped"), "{refused}");
        }
        assert_eq!(cursors.count(), 0);
    }

    #[test]
    fn a_command_that_reads_from_a_dropped_collection_can_be_killed() {
        let memory = Memory::new(64 << 20);
        let cursors = cursors(&memory);
        let id = open(&cursors);
        let borrowed = cursors.borrow(id, "d.c", &owner()).expect("it is idle");
        cursors.end_of_namespaces(|_| true, "collection dropped");
        assert_eq!(cursors.kill(id, &owner()), Killed::Yes);
        let killed = borrowed.killed.notified().now_or_never();
        assert!(killed.is_some(), "the command that reads is ended");
    }
}
