//! Frees memtables that are sorted, on a thread of their own.
//!
//! The engine's worker gives up a sorted memtable, without a lock, when it sorts the next one. A reader that still has it then
//! would be its last owner, and to free the two hundred thousand nodes of one takes tens of milliseconds. So a second owner
//! outlives the readers:
//!
//! ```text
//! committer   seal 2 ── hand over memtable 2 ── next group
//! worker         └─ give up memtable 1, sort memtable 2
//! this thread         └─ memtable 1 has no other owner: free it
//! ```
//!
//! Nothing is kept for longer by it than until the next one is sealed, which is as long as the engine keeps it.

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::StorageError;

/// Delay before the next check of a memtable that was still in use.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Memtables that were sealed while others are freed. Writers wait long before there are so many.
const HANDED_OVER_MAX: usize = 8;

/// A memtable; its content does not matter here.
pub(crate) type Memtable = Arc<dyn Any + Send + Sync>;

/// The thread ends when this is dropped, with all memtables that it owns.
pub(crate) struct MemtableReclaim(SyncSender<Memtable>);

impl MemtableReclaim {
    pub fn new() -> Result<MemtableReclaim, StorageError> {
        let (sender, receiver) = sync_channel(HANDED_OVER_MAX);
        let freeing = std::thread::Builder::new().name("old-memtables".into());
        freeing.spawn(move || free_all(&receiver)).map_err(|error| {
            StorageError::io(format!("the thread that frees memtables cannot start: {error}"))
        })?;
        Ok(MemtableReclaim(sender))
    }

    /// Takes a share in a memtable that was sealed.
    pub fn add(&self, memtable: Memtable) {
        // Where the thread is busy, its other owner frees it.
        let _is_taken = self.0.try_send(memtable);
    }
}

fn free_all(sealed: &Receiver<Memtable>) {
    let mut memtables = Vec::new();
    loop {
        // The newest one is not given up before the next is sealed.
        let next = match memtables.len() {
            0 | 1 => sealed.recv().map_err(|_| RecvTimeoutError::Disconnected),
            _ => sealed.recv_timeout(LOOK_AGAIN),
        };
        match next {
            Ok(memtable) => memtables.push(memtable),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // A memtable with one owner cannot get another.
        memtables.retain(|memtable| Arc::strong_count(memtable) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{self, ThreadId};

    /// Reports the thread that freed it.
    struct Freed(SyncSender<ThreadId>);

    impl Drop for Freed {
        fn drop(&mut self) {
            let _somebody_looks = self.0.try_send(thread::current().id());
        }
    }

    #[test]
    fn memtable_is_freed_by_neither_who_seals_nor_who_reads() {
        let old = MemtableReclaim::new().expect("the thread starts");
        let (freed, on) = sync_channel(4);
        let memtable = || -> Memtable { Arc::new(Freed(freed.clone())) };
        let (first, second) = (memtable(), memtable());
        old.add(first.clone());
        old.add(second.clone());
        let reader = first.clone();
        drop(first);
        assert!(on.try_recv().is_err(), "a reader has it");
        drop(reader);
        assert_ne!(on.recv().expect("it is freed"), thread::current().id());
        // The newest is freed when the next is sealed.
        drop(second);
        old.add(memtable());
        assert_ne!(on.recv().expect("it is freed"), thread::current().id());
    }

    #[test]
    fn thread_ends_with_what_it_owns() {
        let old = MemtableReclaim::new().expect("the thread starts");
        let (freed, on) = sync_channel(4);
        old.add(Arc::new(Freed(freed)));
        drop(old);
        assert_ne!(on.recv().expect("it is freed"), thread::current().id());
    }
}
