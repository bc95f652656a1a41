//! Where a read of a local disk is done: in the call, or on a thread that may block.
//!
//! A cached read takes microseconds, less than handing it to another thread. A read that waits for
//! the disk holds up every request of its runtime's thread. The two cannot be distinguished
//! beforehand, so earlier reads predict the next: one in sixteen is measured, and when several of
//! the next are slow, reads leave the call until many in a row were quick again.
//!
//! ```text
//! quick ── a slow one ──► suspect ── 3 of 8 slow ──► slow
//!   ▲                        │ otherwise              │ 32 quick ones in a row
//!   └────────────────────────┴────────────────────────┘
//! ```
//!
//! One slow read changes nothing: on a busy machine a thread may lose its core in the middle of any read.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shardlake_stdx::Clock;

const MEASURED_EVERY: u8 = 16;
const SUSPECT_READS: u32 = 8;
const SLOW_OF_SUSPECT: u32 = 3;
const QUICK_IN_A_ROW: u32 = 32;

const QUICK: u8 = 0;
const SUSPECT: u8 = 1;
const SLOW: u8 = 2;

/// Where to do the next read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    InTheCall { measured: bool },
    Elsewhere,
}

#[derive(Debug)]
pub(crate) struct SlowReads {
    slow_read: Duration,
    state: AtomicU8,
    counts: Mutex<Counts>,
}

/// Since the state changed.
#[derive(Debug, Default)]
struct Counts {
    reads: u32,
    slow: u32,
    quick_in_a_row: u32,
}

impl SlowReads {
    /// `slow_read` is how long a read takes that is better done elsewhere; none is with [`Duration::MAX`], and every
    /// one with zero.
    pub fn new(slow_read: Duration) -> Self {
        let state = if slow_read.is_zero() { SLOW } else { QUICK };
        SlowReads { slow_read, state: AtomicU8::new(state), counts: Mutex::default() }
    }

    pub fn is_quick(&self) -> bool {
        self.state.load(Ordering::Relaxed) != SLOW
    }

    pub fn way(&self) -> Way {
        thread_local!(static UNMEASURED: Cell<u8> = const { Cell::new(0) });
        match self.state.load(Ordering::Relaxed) {
            QUICK => {
                let unmeasured = UNMEASURED.get().wrapping_add(1);
                UNMEASURED.set(unmeasured);
                Way::InTheCall { measured: unmeasured.is_multiple_of(MEASURED_EVERY) }
            }
            SUSPECT => Way::InTheCall { measured: true },
            _ => Way::Elsewhere,
        }
    }

    /// Reads, and notes the duration where it is to be measured. `weigh` returns the number of keys
    /// that the read is comparable to.
    pub fn read<T>(&self, measured: bool, weigh: impl FnOnce(&T) -> u32, read: impl FnOnce() -> T) -> T {
        if !measured {
            return read();
        }
        let started = Clock::System.elapsed();
        let read = read();
        self.took((Clock::System.elapsed() - started) / weigh(&read));
        read
    }

    fn took(&self, took: Duration) {
        let is_slow = took >= self.slow_read;
        if !is_slow && self.state.load(Ordering::Relaxed) == QUICK {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.reads += 1;
        counts.slow += u32::from(is_slow);
        counts.quick_in_a_row = if is_slow { 0 } else { counts.quick_in_a_row + 1 };
        let next = match self.state.load(Ordering::Relaxed) {
            QUICK => SUSPECT,
            SUSPECT if counts.slow >= SLOW_OF_SUSPECT => SLOW,
            SUSPECT if counts.reads >= SUSPECT_READS => QUICK,
            SLOW if counts.quick_in_a_row >= QUICK_IN_A_ROW => QUICK,
            _ => return,
        };
        if next != SUSPECT {
            *counts = Counts::default();
        }
        self.state.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW_READ: Duration = Duration::from_micros(500);
    const LONG: Duration = Duration::from_millis(4);
    const SHORT: Duration = Duration::from_micros(3);

    fn tell(pace: &SlowReads, reads: &[Duration]) {
        reads.iter().for_each(|took| pace.took(*took));
    }

    #[test]
    fn one_read_of_sixteen_is_measured_while_they_are_quick() {
        let pace = SlowReads::new(SLOW_READ);
        let measured = (0..160).filter(|_| pace.way() == Way::InTheCall { measured: true }).count();
        assert_eq!(measured, 10);
    }

    #[test]
    fn reads_leave_the_call_when_several_are_slow_and_come_back_when_many_are_quick() {
        let pace = SlowReads::new(SLOW_READ);
        tell(&pace, &[LONG]);
        assert_eq!(pace.way(), Way::InTheCall { measured: true }, "the next ones are looked at");
        tell(&pace, &[SHORT, LONG, LONG]);
        assert_eq!(pace.way(), Way::Elsewhere);
        tell(&pace, &[SHORT; 31]);
        tell(&pace, &[LONG]);
        tell(&pace, &[SHORT; 31]);
        assert!(!pace.is_quick(), "one slow read among them, and counting begins again");
        tell(&pace, &[SHORT]);
        assert!(pace.is_quick());
    }

    #[test]
    fn one_slow_read_among_quick_ones_changes_nothing() {
        let pace = SlowReads::new(SLOW_READ);
        for _ in 0..100 {
            tell(&pace, &[LONG, SHORT, SHORT, LONG]);
            tell(&pace, &[SHORT; 4]);
            assert_eq!(pace.state.load(Ordering::Relaxed), QUICK);
        }
    }
}
