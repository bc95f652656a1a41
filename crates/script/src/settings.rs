//! Settings of the workers: their number, where they run, and the limits of one invocation.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

use shardlake_stdx::Clock;

#[derive(Debug, Clone)]
pub struct ScriptSettings {
    pub workers: WorkerKind,
    /// Limit on workers for procedures and triggers, and a separate one of the same size for functions of
    /// queries; further invocations wait for a turn. One container may have all but one. Functions over
    /// changes have one more, and borrow from procedures and triggers up to half of their number.
    pub workers_max: usize,
    /// Limit on waiting invocations; further ones are refused.
    pub waiting_max: usize,
    /// The limit of one container.
    pub waiting_of_container_max: usize,
    /// The clock that times offences.
    pub clock: Clock,
}

impl Default for ScriptSettings {
    fn default() -> Self {
        ScriptSettings {
            workers: WorkerKind::Thread,
            // One container may use every core; one more worker is left to the other containers.
            workers_max: cores().max(2) + 1,
            waiting_max: 1_000,
            waiting_of_container_max: 250,
            clock: Clock::System,
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerKind {
    /// This program with these arguments serves its standard input as a worker; it can be killed.
    Process { program: PathBuf, arguments: Vec<String> },
    /// A thread of this process, for tests of script semantics: a built-in function that runs for ever cannot
    /// be stopped.
    Thread,
}

/// Limits of one invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLimits {
    /// 5 s (engine.md §4.4).
    pub time: Duration,
    /// Limit on loop iterations and calls; unlike the time, the same on every machine.
    pub steps_max: u64,
    pub memory_bytes_max: usize,
    pub stack_bytes_max: usize,
    pub response_bytes_max: usize,
    pub log_bytes_max: usize,
}

impl ScriptLimits {
    /// Limits of a function over changes: those of procedures, with a time of its own and steps in proportion.
    pub fn of_function(time: Duration) -> ScriptLimits {
        let usual = ScriptLimits::default();
        let times = (time.as_secs_f64() / usual.time.as_secs_f64()).ceil().max(1.0) as u64;
        ScriptLimits { time, steps_max: usual.steps_max.saturating_mul(times), ..usual }
    }

    /// Limits of a check, which parses a text and normally runs nothing.
    pub(crate) fn of_check() -> ScriptLimits {
        ScriptLimits { time: Duration::from_secs(1), steps_max: 10_000_000, ..ScriptLimits::default() }
    }
}

impl Default for ScriptLimits {
    fn default() -> Self {
        ScriptLimits {
            time: Duration::from_secs(5),
            steps_max: 1_000_000_000,
            memory_bytes_max: 64 * 1024 * 1024,
            stack_bytes_max: 512 * 1024,
            response_bytes_max: 4 * 1024 * 1024,
            log_bytes_max: 64 * 1024,
        }
    }
}
