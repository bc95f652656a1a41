//! A worker process's limits on memory, processor time and descriptors, and when it has served long enough.
//!
//! The engine counts its own memory; the address-space limit covers memory that the engine does not count.
//! The limit on processor time ends a worker that hangs in a built-in function when no pool is left to kill
//! it. Failing to set a limit is not an error: they are a second line.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::settings::ScriptLimits;

/// Orders after which a worker is replaced, so that nothing accumulates without end.
const ORDERS_MAX: u32 = 10_000;
/// Orders between two checks of the memory.
const ORDERS_PER_LOOK: u32 = 64;
/// Growth of resident memory after which a worker is replaced.
const GROWTH_BYTES_MAX: u64 = 64 << 20;
/// Address space beyond the scripts' limit: messages, buffers, the engine's own.
const ADDRESS_SPACE_SLACK: u64 = 512 << 20;
const PAGE_BYTES: u64 = 4096;
/// The socket, and files in `/proc`.
const FILES_MAX: u64 = 16;

#[derive(Debug)]
pub(crate) struct Confinement {
    /// The memory of the process at its start; a worker on a thread is not confined.
    start: Option<Memory>,
    /// The kernel's statistics of its memory, opened while it may open files.
    statistics: Option<File>,
    memory_bytes_max: usize,
    orders: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    address_space: u64,
    resident: u64,
}

impl Confinement {
    pub(crate) fn of_thread() -> Confinement {
        Confinement { start: None, statistics: None, memory_bytes_max: 0, orders: 0 }
    }

    pub(super) fn of_process() -> Confinement {
        // When memory is short, the system should kill the worker and not the server.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        let none =
            [(Resource::Core, 0), (Resource::Fsize, 0), (Resource::Nproc, 0), (Resource::Nofile, FILES_MAX)];
        for (resource, limit) in none {
            let _ = setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) });
        }
        let statistics = File::open("/proc/self/statm").ok();
        let start = memory(statistics.as_ref());
        Confinement { start: Some(start), statistics, memory_bytes_max: 0, orders: 0 }
    }

    /// Sets the limits of the next order.
    pub(super) fn prepare(&mut self, limits: &ScriptLimits) {
        self.orders += 1;
        let Some(start) = self.start else { return };
        if self.memory_bytes_max != limits.memory_bytes_max {
            self.memory_bytes_max = limits.memory_bytes_max;
            lower(
                Resource::As,
                start.address_space + 2 * limits.memory_bytes_max as u64 + ADDRESS_SPACE_SLACK,
            );
        }
        self.renew(limits.time);
    }

    /// Grants the processor time of one more script.
    pub(super) fn renew(&self, time: Duration) {
        if self.start.is_none() {
            return;
        }
        let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.max(0) as u64;
        lower(Resource::Cpu, used + 2 * time.as_secs() + PROCESSOR_GRACE.as_secs());
    }

    /// Whether the worker should be replaced.
    pub(super) fn is_spent(&self) -> bool {
        let Some(start) = self.start else { return false };
        let is_grown = || memory(self.statistics.as_ref()).resident > start.resident + GROWTH_BYTES_MAX;
        self.orders >= ORDERS_MAX || (self.orders.is_multiple_of(ORDERS_PER_LOOK) && is_grown())
    }
}

/// Processor time beyond twice the time of a script.
const PROCESSOR_GRACE: Duration = Duration::from_secs(5);

/// Lowers a limit that the process itself may still raise.
fn lower(resource: Resource, limit: u64) {
    let maximum = getrlimit(resource).maximum;
    let current = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
    let _ = setrlimit(resource, Rlimit { current, maximum });
}

fn memory(statistics: Option<&File>) -> Memory {
    let mut text = [0; 256];
    let length = statistics.and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]);
    let mut pages = text.split(' ').map(|pages| pages.parse::<u64>().unwrap_or(0) * PAGE_BYTES);
    Memory { address_space: pages.next().unwrap_or(0), resident: pages.next().unwrap_or(0) }
}

/// Processor time of this thread, the only one of a worker process.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}
