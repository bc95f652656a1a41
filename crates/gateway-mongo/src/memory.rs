//! Memory for messages and answers of all connections together: half for messages, half for answers, so that neither stops the other.
//!
//! A message is counted as it arrives, so an announced length costs nothing. When it is whole it is counted with the values that are made
//! of it. Small messages are not counted: the number of connections bounds them.
//!
//! Messages that arrive hold a part of the memory and need more, so they could wait for each other. One of them at a time goes on without
//! room when there is none. The bound is therefore the room and one message.
//!
//! A command that may answer with a batch takes room for a usual one before it runs; when the answer is made the room is corrected to its
//! size, as far as there is any, and it is given back when the client has taken the answer.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Messages up to here are not counted.
pub const SMALL_BYTES: usize = 16 << 10;
/// A whole message takes so many times its bytes: they, the values made of them, and the results of those.
pub const FACTOR: usize = 3;
/// Taken before a command that may answer with a batch.
pub const BATCH_BYTES: usize = 1 << 20;
const UNIT_BYTES: usize = 1 << 10;

pub struct Memory {
    pub messages: Room,
    pub answers: Room,
}

pub struct Room {
    units: Arc<Semaphore>,
    units_max: usize,
    /// Held by the one that goes on without room.
    beyond: Arc<Semaphore>,
}

/// Room that was taken. It is given back when this is dropped.
#[derive(Debug, Default)]
pub struct Hold {
    permit: Option<OwnedSemaphorePermit>,
    beyond: Option<OwnedSemaphorePermit>,
}

impl Memory {
    pub fn new(bytes_max: u64) -> Memory {
        Memory { messages: Room::new(bytes_max / 2), answers: Room::new(bytes_max / 2) }
    }

    /// Bytes that are taken.
    pub fn held_bytes(&self) -> u64 {
        self.messages.held_bytes() + self.answers.held_bytes()
    }
}

impl Room {
    fn new(bytes_max: u64) -> Room {
        let units_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / UNIT_BYTES;
        let units_max = units_max.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Room { units: Arc::new(Semaphore::new(units_max)), units_max, beyond: Arc::new(Semaphore::new(1)) }
    }

    /// Room for so many bytes; `None` where there was none in time.
    pub async fn take(&self, bytes: usize, deadline: Instant) -> Option<Hold> {
        let mut hold = Hold::default();
        self.grow(&mut hold, bytes, deadline).await.then_some(hold)
    }

    /// Enlarges a hold to so many bytes. `false` where there was no room in time.
    pub async fn grow(&self, hold: &mut Hold, bytes: usize, deadline: Instant) -> bool {
        let more = self.units(bytes).saturating_sub(hold.units());
        if more == 0 || hold.beyond.is_some() {
            return true;
        }
        let growing = async {
            tokio::select! {
                biased;
                more = self.units.clone().acquire_many_owned(more as u32) => hold.merge(more.ok()),
                // What holds nothing keeps no other message waiting.
                beyond = self.beyond.clone().acquire_owned(), if hold.permit.is_some() => {
                    hold.beyond = beyond.ok();
                }
            }
        };
        tokio::time::timeout_at(deadline, growing).await.is_ok()
    }

    /// Corrects a hold to the size of an answer. What is larger than what was taken for it is counted as far as there is room.
    pub fn settle(&self, hold: &mut Hold, bytes: usize) {
        let wanted = if bytes <= SMALL_BYTES { 0 } else { self.units(bytes) };
        let held = hold.units();
        if wanted < held {
            // Dropped, which gives it back.
            let _surplus = hold.permit.as_mut().and_then(|permit| permit.split(held - wanted));
        } else if wanted > held {
            let more = (wanted - held).min(self.units.available_permits()) as u32;
            hold.merge(self.units.clone().try_acquire_many_owned(more).ok());
        }
    }

    /// What is larger than all the room takes all of it.
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
    use super::*;

    const MIB: usize = 1 << 20;

    fn room() -> Room {
        Room::new(8 << 20)
    }

    #[tokio::test]
    async fn room_is_bounded_and_comes_back() {
        let (room, now) = (room(), Instant::now());
        let first = room.take(6 * MIB, now).await.expect("there is room");
        assert!(room.take(3 * MIB, now).await.is_none());
        drop(first);
        assert!(room.take(1 << 40, now).await.is_some(), "more than all is all");
        assert_eq!(room.held_bytes(), 0);
    }

    #[tokio::test]
    async fn one_of_those_that_hold_a_part_goes_on_without_room() {
        let (room, now) = (room(), Instant::now());
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
        let room = room();
        let mut hold = room.take(BATCH_BYTES, Instant::now()).await.expect("there is room");
        room.settle(&mut hold, 5 << 20);
        assert_eq!(room.held_bytes(), 5 << 20);
        room.settle(&mut hold, 2 << 20);
        assert_eq!(room.held_bytes(), 2 << 20);
        room.settle(&mut hold, 100);
        assert_eq!(room.held_bytes(), 0);
        let mut late = Hold::default();
        room.settle(&mut late, 16 << 20);
        assert_eq!(room.held_bytes(), 8 << 20);
    }
}
