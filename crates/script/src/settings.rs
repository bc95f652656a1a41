//! How many workers there are, where they run, and what one invocation may use.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

use shardlake_stdx::Clock;

#[derive(Debug, Clone)]
pub struct ScriptSettings {
    pub workers: WorkerKind,
    /// Workers for procedures and triggers at most, and as many again for functions; further invocations wait their turn.
    /// One container has all of them but one.
    pub workers_max: usize,
    /// Invocations that wait at most; further ones are refused.
    pub waiting_max: usize,
    /// The same of one container.
    pub waiting_of_container_max: usize,
    /// What the time of an offence is taken from.
    pub clock: Clock,
}

impl Default for ScriptSettings {
    fn default() -> Self {
        ScriptSettings {
            workers: WorkerKind::Thread,
            // One container may use every core, and then the worker that is left to others is one more.
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
    /// A thread of this process, for tests of what scripts do: nothing stops a built-in function that runs for ever.
    Thread,
}

/// Of one invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptLimits {
    /// 5 s (engine.md §4.4).
    pub time: Duration,
    /// Loop turns and calls at most; unlike the time, the same on every machine.
    pub steps_max: u64,
    pub memory_bytes_max: usize,
    pub stack_bytes_max: usize,
    pub response_bytes_max: usize,
    pub log_bytes_max: usize,
}

impl ScriptLimits {
    /// Of a check, which reads a text and runs nothing of an honest one.
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
