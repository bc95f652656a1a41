//! Work that is nobody's hurry, beside work that somebody waits for.

/// From now on this thread runs where others leave the processors idle. For threads of one's own only: it cannot be taken
/// back. Does nothing where the system knows no priorities of single threads.
pub fn lower_thread_priority() {
    // On Linux, alone, this is about the calling thread and not its process. A refusal changes nothing but the speed of others.
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(None, 19);
}
