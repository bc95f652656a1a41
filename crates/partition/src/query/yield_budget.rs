//! Yielding: a page that reads much lets other tasks of its thread run, once in about a millisecond
//! of work.
//!
//! A yield costs some ten microseconds, often a move to another core. So short pages never yield,
//! and work is counted rather than chunks of rows: a chunk of index entries is quickly counted, one
//! of items with a dear condition is not.

/// Work of a time slice, in steps of evaluation.
const STEPS_OF_TURN: u64 = 48 * 1024;
/// Steps for reading a row, besides those of evaluation.
const STEPS_OF_ROW: u64 = 16;

/// Work since the last yield.
#[derive(Debug, Default)]
pub(super) struct YieldBudget {
    rows: u64,
    /// The meter's count at the last yield.
    steps_before: u64,
}

impl YieldBudget {
    /// Whether the time slice is over after so many rows more; then the next one begins.
    pub fn is_over(&mut self, rows: u64, steps: u64) -> bool {
        self.rows += rows;
        let work = steps.saturating_sub(self.steps_before) + self.rows * STEPS_OF_ROW;
        let is_over = work >= STEPS_OF_TURN;
        if is_over {
            *self = YieldBudget { rows: 0, steps_before: steps };
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_is_over_after_so_much_work_of_any_kind() {
        let mut turn = YieldBudget::default();
        let rows = STEPS_OF_TURN / STEPS_OF_ROW;
        assert!(!turn.is_over(rows - 1, 0));
        assert!(turn.is_over(1, 0));
        assert!(!turn.is_over(1, STEPS_OF_TURN / 2));
        assert!(turn.is_over(0, STEPS_OF_TURN));
        assert!(!turn.is_over(1, STEPS_OF_TURN));
    }
}
