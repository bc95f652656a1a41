//! Thread priority for background work that no client waits for.

use std::time::Duration;

/// Linux gives such a thread a third of the processor time of others, and schedules others first. With 19,
/// the lowest priority, it would be a seventieth. Where clients use all processors, a second of work would
/// then take minutes, in which clients write more than it can ever catch up with.
#[cfg(target_os = "linux")]
const LOW: i32 = 5;

/// From now on this thread runs mostly where others leave the processors idle. Only for threads of the caller's own,
/// since it cannot be undone. Does nothing where the system has no priorities of single threads.
pub fn lower_thread_priority() {
    // On Linux, alone, this is about the calling thread and not its process. A refusal changes nothing but the speed of others.
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(None, LOW);
}

/// Processor time of this thread; `None` where the system does not report it.
pub fn thread_processor_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok();
    #[cfg(not(target_os = "linux"))]
    return None;
}
