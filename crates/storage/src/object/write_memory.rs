//! Memory budget of rows that are written and in no table yet, of all shards of a process.
//!
//! SlateDB counts rows as they will lie in tables. In memory each requires some two hundred bytes
//! more: an index row of 40 bytes uses six times as much as SlateDB counts for it. So rows are
//! counted here as memory holds them, and a writer waits for room:
//!
//! ```text
//!            take(bytes)              begin_flush()               the flush ends
//! a group ───────────────▶ memtable ────────────────▶ flushing ─────────────────▶ given back
//!            waits while memory is full, and a flush is under way that gives some back
//! ```
//!
//! A shard begins a flush when its memtable holds half of its part ([`SHARE_OF_A_MEMTABLE`]
//! quarters). So memtables that are not being flushed never fill the memory together, and every
//! wait is for a flush. Where no flush is under way no writer waits, however large its group is. A
//! shard that writes alone may use the memory that the others do not use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use crate::{Batch, Op};

/// A node of the memtable's skip list, with its tower, and the row in it; of SlateDB 0.18. `tests/memory` counts it.
const ROW_BYTES: u64 = 200;
/// Size at which a memtable is flushed, in units of `ObjectOptions::memtable_bytes`.
pub(super) const SHARE_OF_A_MEMTABLE: u64 = 2;

#[derive(Clone)]
pub struct WriteMemory(Arc<Inner>);

struct Inner {
    bytes_max: u64,
    state: Mutex<State>,
    given_back: Notify,
}

#[derive(Default)]
struct State {
    held_bytes: u64,
    /// Flushes under way.
    flushes: u64,
    /// Writers that wait for room.
    waiting: u64,
}

impl std::fmt::Debug for WriteMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes written", self.held_bytes(), self.0.bytes_max)
    }
}

impl WriteMemory {
    pub fn new(bytes_max: u64) -> WriteMemory {
        let state = Mutex::default();
        WriteMemory(Arc::new(Inner { bytes_max, state, given_back: Notify::new() }))
    }

    /// Memory of rows that are in no table yet.
    pub fn held_bytes(&self) -> u64 {
        self.state().held_bytes
    }

    /// Whether a writer waits for room.
    pub fn is_waited_for(&self) -> bool {
        self.state().waiting > 0
    }

    /// Room for so many bytes; waits for it while a flush is under way.
    pub(super) async fn take(&self, bytes: u64) -> Held {
        loop {
            let given_back = self.0.given_back.notified();
            tokio::pin!(given_back);
            // From here on it is notified when memory is given back.
            given_back.as_mut().enable();
            if let Some(held) = self.try_take(bytes) {
                return held;
            }
            let _waits = Waits::of(self);
            given_back.await;
        }
    }

    fn try_take(&self, bytes: u64) -> Option<Held> {
        let mut state = self.state();
        if state.held_bytes + bytes > self.0.bytes_max && state.flushes > 0 {
            return None;
        }
        state.held_bytes += bytes;
        Some(Held { memory: self.clone(), bytes })
    }

    pub(super) fn nothing(&self) -> Held {
        Held { memory: self.clone(), bytes: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting writer; it may give up.
struct Waits<'m>(&'m WriteMemory);

impl Waits<'_> {
    fn of(memory: &WriteMemory) -> Waits<'_> {
        memory.state().waiting += 1;
        Waits(memory)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        assert!(state.waiting > 0, "each waiting writer is counted");
        state.waiting -= 1;
    }
}

/// Memory of rows, given back when it is dropped.
pub(super) struct Held {
    memory: WriteMemory,
    bytes: u64,
}

impl Held {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn add(&mut self, mut more: Held) {
        assert!(Arc::ptr_eq(&self.memory.0, &more.memory.0), "memory is given back where it was taken");
        self.bytes += std::mem::take(&mut more.bytes);
    }

    /// The flush that gives this back begins.
    pub fn begin_flush(self) -> Flushing {
        self.memory.state().flushes += 1;
        Flushing(self)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        assert!(state.held_bytes >= self.bytes, "what is given back was taken");
        state.held_bytes -= self.bytes;
        drop(state);
        self.memory.0.given_back.notify_waiters();
    }
}

/// A flush under way; it ends when this is dropped.
pub(super) struct Flushing(Held);

impl Drop for Flushing {
    fn drop(&mut self) {
        let mut state = self.0.memory.state();
        assert!(state.flushes > 0, "each flush is counted");
        state.flushes -= 1;
        drop(state);
        // Its memory is given back next, and then the waiting writers are notified.
    }
}

/// Memory of a group's rows in a memtable.
pub(super) fn memory_of(group: &[Batch]) -> u64 {
    let rows: usize = group.iter().map(Batch::len).sum();
    let bytes: usize = group.iter().map(Batch::size_bytes).sum();
    rows as u64 * ROW_BYTES + bytes as u64
}

/// Longer ones are copied apart.
const SHORT_BYTES_MAX: usize = 4 << 10;
const PIECE_BYTES: usize = 32 << 10;

/// Keys and values of a group, copied behind one another.
///
/// A row that is allocated by itself costs two allocations and, since SlateDB shares its key, a
/// third for the reference count. In pieces it costs only its length. A piece is small, because
/// SlateDB keeps the first key of a partition for as long as it has a table.
pub(super) struct Copies {
    left_bytes: usize,
    piece: BytesMut,
}

impl Copies {
    pub fn of(group: &[Batch]) -> Copies {
        let short = |bytes: &Bytes| if bytes.len() > SHORT_BYTES_MAX { 0 } else { bytes.len() };
        let sizes = group.iter().flat_map(Batch::iter).map(|op| match op {
            Op::Put { key, value } => short(key) + short(value),
            // SlateDB copies it.
            Op::Delete { .. } => 0,
        });
        Copies { left_bytes: sizes.sum(), piece: BytesMut::new() }
    }

    pub fn copy(&mut self, bytes: &Bytes) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        if bytes.len() > SHORT_BYTES_MAX {
            return Bytes::copy_from_slice(bytes);
        }
        if self.piece.capacity() < bytes.len() {
            self.piece = BytesMut::with_capacity(self.left_bytes.min(PIECE_BYTES));
        }
        assert!(self.left_bytes >= bytes.len(), "only bytes that were counted are copied");
        self.left_bytes -= bytes.len();
        self.piece.extend_from_slice(bytes);
        self.piece.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn writer_waits_for_a_flush_and_only_for_one() {
        let memory = WriteMemory::new(100);
        let mut active = memory.nothing();
        active.add(memory.take(90).await);
        active.add(memory.take(20).now_or_never().expect("no flush would give anything back"));
        let flushing = active.begin_flush();
        let mut waits = std::pin::pin!(memory.take(30));
        assert!(waits.as_mut().now_or_never().is_none(), "memory is full");
        assert_eq!(memory.held_bytes(), 110);
        drop(flushing);
        let held = waits.now_or_never().expect("the flush gave it back");
        assert_eq!((held.bytes(), memory.held_bytes()), (30, 30));
        drop(held);
        assert_eq!(memory.held_bytes(), 0);
    }

    #[tokio::test]
    async fn shard_has_what_others_do_not_use() {
        let memory = WriteMemory::new(100);
        let flushing = memory.take(40).await.begin_flush();
        let mut active = memory.take(60).now_or_never().expect("there is room");
        let mut waits = std::pin::pin!(memory.take(1));
        assert!(waits.as_mut().now_or_never().is_none());
        // Another shard's flush ends.
        drop(flushing);
        active.add(waits.now_or_never().expect("there is room"));
        assert_eq!((active.bytes(), memory.held_bytes()), (61, 61));
    }

    #[test]
    fn copies_are_equal_and_lie_behind_one_another() {
        let mut batch = Batch::new();
        for number in 0..2_000_u16 {
            batch.put(number.to_be_bytes().to_vec(), vec![number as u8; usize::from(number % 50)]);
        }
        batch.put("large", vec![1; SHORT_BYTES_MAX + 1]);
        batch.delete("gone");
        let group = [batch];
        let mut copies = Copies::of(&group);
        for op in group[0].iter() {
            if let Op::Put { key, value } = op {
                assert_eq!((copies.copy(key), copies.copy(value)), (key.clone(), value.clone()));
            }
        }
        assert_eq!(copies.left_bytes, 0, "what was counted was copied");
    }
}
