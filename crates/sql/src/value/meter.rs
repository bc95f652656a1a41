//! Counter of an evaluation's work in steps; decides when to check the clock.
//!
//! A step costs about as much as the simplest node of an expression. Steps are counted for each node
//! evaluated, each element or tuple of a join entered, each comparison of a sort, and some bytes of a text,
//! array or object read or written. Steps depend on the query and the data alone, so the same query over the
//! same data always makes the same number of them and has a fixed price.
//!
//! One thread counts at a time and any thread may read, so that slow, failed and abandoned evaluations can be
//! charged from outside. The count is an atomic that is loaded and stored, which costs as much as a plain
//! integer. It is never added to in one operation, which would cost more than a step.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::SqlError;

/// Steps between two checks of the clock: well below a millisecond.
const STEPS_BETWEEN_LOOKS: u64 = 4096;

/// Limit on the steps of one item: as many as a page has time for. The rows of an item cannot be spread over
/// pages, so every page would begin a more expensive item and none would finish it.
pub(crate) const ITEM_STEPS_MAX: u64 = 250_000_000;

/// Bytes read sequentially in the time of one step.
pub(crate) const READ_BYTES_PER_STEP: u64 = 64;
/// Bytes per step of copying, writing JSON and other work that is slower than reading.
pub(crate) const COPIED_BYTES_PER_STEP: u64 = 16;

/// A check of the time limit, callable from any thread.
pub type Interrupt<'q> = &'q (dyn Fn() -> bool + Send + Sync);

#[derive(Debug)]
pub struct Meter {
    steps: AtomicU64,
    /// The count at which the clock is checked.
    look_at: AtomicU64,
    /// The count that the current item may reach.
    item_end: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        Meter {
            steps: AtomicU64::new(0),
            look_at: AtomicU64::new(STEPS_BETWEEN_LOOKS),
            item_end: AtomicU64::new(u64::MAX),
        }
    }
}

impl Meter {
    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    /// Adds steps that were counted elsewhere.
    pub fn add(&self, steps: u64) {
        self.steps.store(self.steps().saturating_add(steps), Relaxed);
    }

    /// Starts counting for another item.
    pub(crate) fn begin_item(&self) {
        self.item_end.store(self.steps().saturating_add(ITEM_STEPS_MAX), Relaxed);
    }

    /// Counts steps; fails when `interrupt` reports that the time is used up, or when the current item needs
    /// too many steps.
    #[inline]
    pub(crate) fn step(&self, steps: u64, interrupt: &dyn Fn() -> bool) -> Result<(), SqlError> {
        let made = self.steps.load(Relaxed).saturating_add(steps);
        self.steps.store(made, Relaxed);
        if made < self.look_at.load(Relaxed) { Ok(()) } else { self.look(made, interrupt) }
    }

    #[cold]
    fn look(&self, made: u64, interrupt: &dyn Fn() -> bool) -> Result<(), SqlError> {
        self.look_at.store(made.saturating_add(STEPS_BETWEEN_LOOKS), Relaxed);
        if interrupt() {
            return Err(SqlError::Interrupted);
        }
        if made > self.item_end.load(Relaxed) {
            return Err(SqlError::ItemTooDear { steps_max: ITEM_STEPS_MAX });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn clock_is_looked_at_once_in_so_many_steps_however_large_they_are() {
        let (meter, looks) = (Meter::default(), Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            looks.get() > 10
        };
        for _ in 0..10 * STEPS_BETWEEN_LOOKS {
            assert_eq!(meter.step(1, &look), Ok(()));
        }
        assert_eq!((looks.get(), meter.steps()), (10, 10 * STEPS_BETWEEN_LOOKS));
        assert_eq!(meter.step(1_000_000, &look), Err(SqlError::Interrupted));
        assert_eq!(meter.steps(), 10 * STEPS_BETWEEN_LOOKS + 1_000_000);
    }

    #[test]
    fn one_item_takes_no_more_steps_than_a_page_has_time_for() {
        let meter = Meter::default();
        let refused = Err(SqlError::ItemTooDear { steps_max: ITEM_STEPS_MAX });
        meter.begin_item();
        assert_eq!(meter.step(ITEM_STEPS_MAX, &|| false), Ok(()));
        assert_eq!(meter.step(STEPS_BETWEEN_LOOKS, &|| false), refused);
        meter.begin_item();
        assert_eq!(meter.step(ITEM_STEPS_MAX, &|| false), Ok(()));
    }
}
