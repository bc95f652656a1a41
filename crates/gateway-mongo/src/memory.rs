//! Memory for messages and answers of all connections together.
//!
//! A message takes room before it is read, for its bytes and for what is made of them. A command that may answer with a batch takes room for a usual
//! one before it runs; when the answer is made the room is corrected to its size, as far as there is any, and it is given back when the client has
//! taken the answer. Small messages are not counted: the number of connections bounds them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to here are not counted.
const SMALL_BYTES: usize = 16 << 10;
/// What a message takes when it is read, compared with its bytes: they, the values made of them, and what becomes of those.
const FACTOR: usize = 3;
/// Taken before a command that may answer with a batch.
pub const BATCH_BYTES: usize = 1 << 20;
const UNIT_BYTES: usize = 1 << 10;

pub struct Memory {
    room: Arc<Semaphore>,
    units_max: usize,
}

/// Room that was taken. It is given back when this is dropped.
#[derive(Debug, Default)]
pub struct Hold(Option<OwnedSemaphorePermit>);

impl Memory {
    pub fn new(bytes_max: u64) -> Memory {
        let units_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / UNIT_BYTES;
        let units_max = units_max.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Memory { room: Arc::new(Semaphore::new(units_max)), units_max }
    }

    /// Room for a message of so many bytes; `None` where there was none in time.
    pub async fn take_for_message(&self, bytes: usize, time: Duration) -> Option<Hold> {
        match bytes {
            0..=SMALL_BYTES => Some(Hold::default()),
            _ => self.take(bytes.saturating_mul(FACTOR), time).await,
        }
    }

    pub async fn take(&self, bytes: usize, time: Duration) -> Option<Hold> {
        let taking = self.room.clone().acquire_many_owned(self.units(bytes));
        let permit = tokio::time::timeout(time, taking).await.ok()?.ok()?;
        Some(Hold(Some(permit)))
    }

    /// Corrects a hold to the size of an answer. What is larger than what was taken for it is counted as far as there is room.
    pub fn settle(&self, hold: &mut Hold, bytes: usize) {
        let wanted = if bytes <= SMALL_BYTES { 0 } else { self.units(bytes) as usize };
        let held = hold.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted < held {
            // Dropped, which gives it back.
            let _surplus = hold.0.as_mut().and_then(|permit| permit.split(held - wanted));
        } else if wanted > held {
            let more = (wanted - held).min(self.room.available_permits()) as u32;
            if let Ok(more) = self.room.clone().try_acquire_many_owned(more) {
                match &mut hold.0 {
                    Some(permit) => permit.merge(more),
                    None => hold.0 = Some(more),
                }
            }
        }
    }

    /// What is larger than all the room takes all of it.
    fn units(&self, bytes: usize) -> u32 {
        bytes.div_ceil(UNIT_BYTES).min(self.units_max) as u32
    }

    /// Bytes that are taken.
    pub fn held_bytes(&self) -> u64 {
        (self.units_max.saturating_sub(self.room.available_permits()) * UNIT_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_is_bounded_and_comes_back() {
        let memory = Memory::new(8 << 20);
        let first = memory.take(6 << 20, Duration::ZERO).await.expect("there is room");
        assert!(memory.take_for_message(1 << 20, Duration::ZERO).await.is_none());
        assert!(memory.take_for_message(SMALL_BYTES, Duration::ZERO).await.is_some());
        drop(first);
        assert!(memory.take(1 << 40, Duration::ZERO).await.is_some(), "more than all is all");
        assert_eq!(memory.held_bytes(), 0);
    }

    #[tokio::test]
    async fn a_hold_becomes_as_large_as_the_answer() {
        let memory = Memory::new(8 << 20);
        let mut hold = memory.take(BATCH_BYTES, Duration::ZERO).await.expect("there is room");
        memory.settle(&mut hold, 5 << 20);
        assert_eq!(memory.held_bytes(), 5 << 20);
        memory.settle(&mut hold, 2 << 20);
        assert_eq!(memory.held_bytes(), 2 << 20);
        memory.settle(&mut hold, 100);
        assert_eq!(memory.held_bytes(), 0);
        let mut late = Hold::default();
        memory.settle(&mut late, 16 << 20);
        assert_eq!(memory.held_bytes(), 8 << 20);
    }
}
