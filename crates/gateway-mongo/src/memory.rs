//! Memory budgets for messages, answers and open cursors of all connections together. Each kind has a budget of its own, so that none stops
//! the others: three eighths for messages, a quarter for answers, three eighths for cursors.
//!
//! A message is counted as it arrives, so an announced length costs nothing. When it is whole it is counted with the values that are made
//! of it. Small messages are not counted: the number of connections bounds them.
//!
//! A command that may answer with a batch reserves memory before it runs. Its batch has no more bytes than that, but one document at least.
//! The answer is counted whole until the client has received it.
//!
//! Messages that arrive and answers that are larger than expected hold a part of the budget and need more, so they could wait for each
//! other. When the budget is spent, one of them at a time continues beyond it. The bound is therefore the budget and one message or answer.
//!
//! An open cursor is counted with the results that it keeps in memory. A cursor for which there is no memory is refused and does not wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Messages up to here are not counted.
pub const SMALL_BYTES: usize = 16 << 10;
/// Factor from the bytes of a message to its memory: the message, the values made of it, and the results of those.
pub const FACTOR: usize = 3;
/// Bytes of a batch when little memory is left, and when much is left.
pub const BATCH_BYTES_MIN: usize = 1 << 20;
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// A batch reserves at most this fraction of the free budget, so that many commands run at once.
const BATCH_SHARE: usize = 8;
const UNIT_BYTES: usize = 1 << 10;

pub struct Memory {
    pub messages: Room,
    pub answers: Room,
    pub cursors: Room,
}

/// Cloning is cheap and shares everything.
#[derive(Clone)]
pub struct Room {
    units: Arc<Semaphore>,
    units_max: usize,
    /// Held by the one message or answer that may exceed the budget.
    beyond: Arc<Semaphore>,
}

/// Reserved memory, released on drop.
#[derive(Debug, Default)]
pub struct Hold {
    permit: Option<OwnedSemaphorePermit>,
    beyond: Option<OwnedSemaphorePermit>,
}

impl Memory {
    pub fn new(bytes_max: u64) -> Memory {
        let parts = |count| Room::new(bytes_max / 8 * count);
        Memory { messages: parts(3), answers: parts(2), cursors: parts(3) }
    }

    /// Bytes that are reserved.
    pub fn held_bytes(&self) -> u64 {
        self.messages.held_bytes() + self.answers.held_bytes() + self.cursors.held_bytes()
    }
}

impl Room {
    fn new(bytes_max: u64) -> Room {
        let units_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / UNIT_BYTES;
        let units_max = units_max.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Room { units: Arc::new(Semaphore::new(units_max)), units_max, beyond: Arc::new(Semaphore::new(1)) }
    }

    /// Reserves so many bytes; `None` if they were not free in time.
    pub async fn take(&self, bytes: usize, deadline: Instant) -> Option<Hold> {
        let mut hold = Hold::default();
        self.grow(&mut hold, bytes, deadline).await.then_some(hold)
    }

    /// Enlarges a hold to so many bytes. `false` if they were not free in time.
    pub async fn grow(&self, hold: &mut Hold, bytes: usize, deadline: Instant) -> bool {
        let more = self.units(bytes).saturating_sub(hold.units());
        assert!(u32::try_from(more).is_ok(), "a semaphore counts units by 32 bits");
        if more == 0 || hold.beyond.is_some() {
            return true;
        }
        let growing = async {
            tokio::select! {
                biased;
                more = self.units.clone().acquire_many_owned(more as u32) => hold.merge(more.ok()),
                // A message that holds no memory keeps no other message waiting.
                beyond = self.beyond.clone().acquire_owned(), if hold.permit.is_some() => {
                    hold.beyond = beyond.ok();
                }
            }
        };
        tokio::time::timeout_at(deadline, growing).await.is_ok()
    }

    /// Reserves memory for a batch, and returns the bytes that the batch may have.
    pub async fn take_for_batch(&self, deadline: Instant) -> Option<(Hold, usize)> {
        let mut hold = self.take(BATCH_BYTES_MIN, deadline).await?;
        let share = self.units.available_permits() / BATCH_SHARE;
        let more = share.min((BATCH_BYTES_MAX - BATCH_BYTES_MIN) / UNIT_BYTES) as u32;
        hold.merge(self.units.clone().try_acquire_many_owned(more).ok());
        let bytes = BATCH_BYTES_MIN.max(hold.units() * UNIT_BYTES);
        assert!(bytes <= BATCH_BYTES_MAX, "a batch is within its limit");
        Some((hold, bytes))
    }

    /// Corrects a hold to the size of an answer. `false` if the memory was not free in time.
    pub async fn settle(&self, hold: &mut Hold, bytes: usize, deadline: Instant) -> bool {
        let bytes = if bytes <= SMALL_BYTES { 0 } else { bytes };
        self.shrink(hold, bytes);
        self.grow(hold, bytes, deadline).await
    }

    /// Corrects a hold to so many bytes at once. `false` if they are not free; the hold is then unchanged.
    pub fn resize(&self, hold: &mut Hold, bytes: usize) -> bool {
        let bytes = if bytes <= SMALL_BYTES { 0 } else { bytes };
        self.shrink(hold, bytes);
        // A request larger than the whole budget is granted if nothing else is held.
        let more = self.units(bytes).saturating_sub(hold.units());
        if more == 0 {
            return true;
        }
        let more = self.units.clone().try_acquire_many_owned(more as u32).ok();
        let is_there = more.is_some();
        hold.merge(more);
        is_there
    }

    fn shrink(&self, hold: &mut Hold, bytes: usize) {
        let surplus = hold.units().saturating_sub(self.units(bytes));
        // Dropped, which gives it back.
        let _surplus = hold.permit.as_mut().and_then(|permit| permit.split(surplus));
        debug_assert!(hold.units() <= self.units_max, "a hold is no more than the whole budget");
    }

    /// Units of a size. A size above the whole budget counts as all of it.
    fn units(&self, bytes: usize) -> usize {
        bytes.div_ceil(UNIT_BYTES).min(self.units_max)
    }

    fn held_bytes(&self) -> u64 {
        (self.units_max.saturating_sub(self.units.available_permits()) * UNIT_BYTES) as u64
    }
}

impl Hold {
    fn units(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn merge(&mut self, more: Option<OwnedSemaphorePermit>) {
        match (&mut self.permit, more) {
            (Some(permit), Some(more)) => permit.merge(more),
            (None, more) => self.permit = more,
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Deadline of a take that must not wait.
    async fn now() -> Instant {
        tokio::time::interval(Duration::from_secs(1)).tick().await
    }

    fn room() -> Room {
        Room::new(8 << 20)
    }

    #[tokio::test]
    async fn room_is_bounded_and_comes_back() {
        let (room, now) = (room(), now().await);
        let first = room.take(6 * MIB, now).await.expect("there is room");
        assert!(room.take(3 * MIB, now).await.is_none());
        drop(first);
        assert!(room.take(1 << 40, now).await.is_some(), "more than all is all");
        assert_eq!(room.held_bytes(), 0);
    }

    #[tokio::test]
    async fn one_of_those_that_hold_a_part_goes_on_without_room() {
        let (room, now) = (room(), now().await);
        let mut first = room.take(5 * MIB, now).await.expect("there is room");
        let mut second = room.take(3 * MIB, now).await.expect("there is room");
        assert!(room.grow(&mut first, 6 * MIB, now).await);
        assert!(!room.grow(&mut second, 6 * MIB, now).await, "one at a time");
        assert!(room.grow(&mut first, 7 * MIB, now).await, "to its end");
        assert!(room.take(MIB, now).await.is_none(), "what holds nothing waits for room");
        assert_eq!(room.held_bytes(), 8 << 20);
        drop(first);
        assert!(room.grow(&mut second, 6 * MIB, now).await);
        assert_eq!(room.held_bytes(), 6 << 20);
    }

    #[tokio::test]
    async fn a_hold_becomes_as_large_as_the_answer() {
        let (room, now) = (room(), now().await);
        let mut hold = room.take(MIB, now).await.expect("there is room");
        assert!(room.settle(&mut hold, 5 * MIB, now).await);
        assert_eq!(room.held_bytes(), 5 << 20);
        assert!(room.settle(&mut hold, 2 * MIB, now).await);
        assert_eq!(room.held_bytes(), 2 << 20);
        let mut other = Hold::default();
        assert!(!room.settle(&mut other, 7 * MIB, now).await, "it waits for the first one");
        assert!(room.settle(&mut hold, 100, now).await);
        assert_eq!(room.held_bytes(), 0);
        assert!(room.settle(&mut other, 16 * MIB, now).await);
        assert_eq!(room.held_bytes(), 8 << 20);
    }

    #[tokio::test]
    async fn a_batch_has_as_many_bytes_as_there_is_room_for() {
        let (room, now) = (Room::new(256 << 20), now().await);
        let mut batches = Vec::new();
        while let Some((hold, bytes)) = room.take_for_batch(now).await {
            assert_eq!(hold.units() * UNIT_BYTES, bytes);
            batches.push((hold, bytes));
        }
        assert_eq!(batches[0].1, BATCH_BYTES_MAX);
        assert!(batches.iter().all(|(_, bytes)| *bytes >= BATCH_BYTES_MIN));
        assert!(batches.len() >= 30, "{}", batches.len());
        assert!(room.held_bytes() <= 256 << 20);
    }

    #[test]
    fn cursors_are_refused_where_there_is_no_room() {
        let room = room();
        let (mut first, mut second) = (Hold::default(), Hold::default());
        assert!(room.resize(&mut first, 6 * MIB));
        assert!(!room.resize(&mut second, 3 * MIB));
        assert!(room.resize(&mut first, 5 * MIB) && room.resize(&mut second, 3 * MIB));
        assert!(room.resize(&mut second, 100));
        assert_eq!(room.held_bytes(), 5 << 20);
    }
}
