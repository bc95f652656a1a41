//! The time and the steps that one order may use, counted while scripts run.
//!
//! The interrupt handler of the engine asks the budget every [`STEPS_PER_POLL`] loop iterations and calls;
//! waiting for an answer of the store costs nothing. Once a limit is reached, the budget stays spent: every
//! later poll ends the script too.

use std::cell::Cell;
use std::time::Duration;

use shardlake_stdx::Clock;

use crate::protocol::{Failure, FailureKind};
use crate::settings::ScriptLimits;

/// Loop iterations and calls of the engine between two polls.
const STEPS_PER_POLL: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Budget {
    /// The limits and the time of this order.
    limits: Cell<ScriptLimits>,
    time: Cell<Duration>,
    start: Cell<Duration>,
    deadline: Cell<Duration>,
    polls_left: Cell<u64>,
    spent: Cell<Option<Spent>>,
    /// Uncaught failures to allocate memory.
    shortages: Cell<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spent {
    Time,
    Steps,
}

impl Budget {
    pub(super) fn new(limits: ScriptLimits) -> Budget {
        let budget = Budget {
            limits: Cell::new(limits),
            time: Cell::default(),
            start: Cell::default(),
            deadline: Cell::default(),
            polls_left: Cell::default(),
            spent: Cell::default(),
            shortages: Cell::default(),
        };
        budget.renew(limits.time);
        budget
    }

    /// Resets the budget for the next order.
    pub(super) fn begin(&self, limits: ScriptLimits) {
        self.limits.set(limits);
        self.renew(limits.time);
    }

    /// Restarts the time for the next call within an order.
    pub(super) fn renew(&self, time: Duration) {
        self.time.set(time);
        self.start.set(Clock::System.elapsed());
        self.deadline.set(self.start.get() + time);
        self.polls_left.set(self.limits().steps_max / STEPS_PER_POLL);
        self.spent.set(None);
        self.shortages.set(0);
    }

    /// Whether the script must end; for the interrupt handler.
    pub(super) fn poll(&self) -> bool {
        match self.polls_left.get().checked_sub(1) {
            None => self.spend(Spent::Steps),
            Some(left) => self.polls_left.set(left),
        }
        self.is_late() || self.spent.get().is_some()
    }

    /// [`Budget::poll`] between two calls into the engine, which costs no step.
    pub(super) fn is_spent(&self) -> bool {
        self.is_late() || self.spent.get().is_some()
    }

    /// Whether the order has used the script's time, all waiting included.
    pub(super) fn is_past_time(&self) -> bool {
        self.taken() > self.time.get()
    }

    /// The time that the order has used so far.
    pub(super) fn taken(&self) -> Duration {
        Clock::System.elapsed().saturating_sub(self.start.get())
    }

    /// Runs work that does not count as the script's time.
    pub(super) fn pause<T>(&self, wait: impl FnOnce() -> T) -> T {
        let start = Clock::System.elapsed();
        let result = wait();
        self.deadline.set(self.deadline.get() + (Clock::System.elapsed() - start));
        result
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        let Some(spent) = self.spent.get() else {
            return (self.shortages.get() > 0).then(|| self.memory_failure());
        };
        let message = match spent {
            Spent::Time => format!(
                "the script ran for more than {} s and was stopped; nothing it wrote is kept",
                self.time.get().as_secs_f32()
            ),
            Spent::Steps => format!(
                "the script took more than {} steps and was stopped; nothing it wrote is kept",
                self.limits().steps_max
            ),
        };
        Some(Failure { kind: FailureKind::Limit, message })
    }

    /// A promise failed because memory had run out, or was caught after all.
    pub(super) fn memory_was_short(&self, is_caught: bool) {
        self.shortages.set(self.shortages.get() + if is_caught { -1 } else { 1 });
    }

    pub(super) fn memory_failure(&self) -> Failure {
        self.out_of_memory("")
    }

    /// The engine throws null when memory is too short even for an error. A script that throws null looks the
    /// same.
    pub(super) fn null_failure(&self) -> Failure {
        self.out_of_memory(", or threw null,")
    }

    fn out_of_memory(&self, or: &str) -> Failure {
        let megabytes = self.limits().memory_bytes_max >> 20;
        let message = format!(
            "the script used more than {megabytes} MiB of memory{or} and was stopped; nothing it wrote is kept"
        );
        Failure { kind: FailureKind::Limit, message }
    }

    pub(super) fn limits(&self) -> ScriptLimits {
        self.limits.get()
    }

    fn is_late(&self) -> bool {
        if self.spent.get().is_none() && Clock::System.elapsed() > self.deadline.get() {
            self.spend(Spent::Time);
        }
        self.spent.get() == Some(Spent::Time)
    }

    fn spend(&self, what: Spent) {
        if self.spent.get().is_none() {
            self.spent.set(Some(what));
        }
    }
}
