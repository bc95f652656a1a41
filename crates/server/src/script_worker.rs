//! The server as its own script worker: the same program, started again with a flag that is for it alone.
//!
//! There is one file to install, and server and workers always understand each other. The work of a worker is in `crates/script`.

use std::path::PathBuf;

use shardlake_account::{ScriptSettings, WorkerKind};

const FLAG: &str = "--js-worker";

/// Whether this process was started to be a worker.
pub fn is_asked_for() -> bool {
    is_only_argument(FLAG)
}

pub(crate) fn is_only_argument(flag: &str) -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|argument| argument == flag) && arguments.next().is_none()
}

/// Workers are processes of this program.
pub(crate) fn settings() -> ScriptSettings {
    let workers = WorkerKind::Process { program: this_program(), arguments: vec![FLAG.to_owned()] };
    ScriptSettings { workers, ..ScriptSettings::default() }
}

/// On Linux the running program itself, whatever became of its file: workers must speak the language of their server.
pub(crate) fn this_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    // A program that cannot be found cannot be started either; the error is reported when a script is run.
    std::env::current_exe().unwrap_or_default()
}
