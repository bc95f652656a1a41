//! Limits of a worker process. Failing to set one is not an error: the memory pool and the server's watchdog are the first line.

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use super::sandbox;
use crate::protocol::Limits;

/// Added to the process's niceness: requests come first.
const NICENESS: i32 = 10;
/// Data files, spill files, the socket.
const FILES_MAX: u64 = 4096;
/// Address space beyond the query's memory: the program, stacks, the allocator's reserve, answers.
const ADDRESS_SPACE_SLACK: u64 = 6 << 30;

/// Before the first order: everything that no order changes.
pub(super) fn confine() {
    // When memory is short, the system should kill the worker and not the server.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let _ = nice(NICENESS);
    lower(Resource::Core, 0);
    lower(Resource::Nofile, FILES_MAX);
    sandbox::enter();
}

/// Limits of the next order.
pub(super) fn prepare(limits: &Limits) {
    lower(Resource::As, 2 * limits.memory_bytes + ADDRESS_SPACE_SLACK);
}

/// Lowers a limit that the process itself may still raise.
fn lower(resource: Resource, limit: u64) {
    let maximum = getrlimit(resource).maximum;
    let current = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
    let _ = setrlimit(resource, Rlimit { current, maximum });
}
