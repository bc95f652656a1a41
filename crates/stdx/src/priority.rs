//! Work that is nobody's hurry, beside work that somebody waits for.

use std::time::Duration;

/// Linux gives such a thread a third of what it gives others, and lets others go first. With 19, the least, it is a seventieth: where clients
/// take all processors, a second of work then takes minutes, in which they write more than it can ever catch up with.
#[cfg(target_os = "linux")]
const LOW: i32 = 5;

/// From now on this thread runs mostly where others leave the processors idle. For threads of one's own only: it cannot be taken
/// back. Does nothing where the system knows no priorities of single threads.
pub fn lower_thread_priority() {
    // On Linux, alone, this is about the calling thread and not its process. A refusal changes nothing but the speed of others.
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(None, LOW);
}

/// How long this thread has had a processor; `None` where the system does not tell.
pub fn thread_processor_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok();
    #[cfg(not(target_os = "linux"))]
    return None;
}
