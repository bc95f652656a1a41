//! Errors of failed runs.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use shardlake_model::{Error, ErrorKind};

use crate::protocol::{Failure, FailureKind};

/// Extra time after the script's time, in which a worker should end the script by itself.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
/// Time limit on the first message of a new worker. It does not count as the script's time.
pub(crate) const START_TIME: Duration = Duration::from_secs(10);
const RETRY_AFTER_MS: u64 = 1_000;

/// Why a worker ended in the middle of an order. Workers killed by the pool itself are not examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Killed from outside: by an operator, or by the system when memory is short. The script is not at
    /// fault.
    Killed,
    /// Killed by `seccomp` for a system call that no worker needs.
    Forbidden,
    /// Ended by itself, most likely because memory outside of the engine ran out.
    Failed,
}

impl Ending {
    pub(crate) fn of(status: ExitStatus) -> Ending {
        use std::os::unix::process::ExitStatusExt;
        let is = |signal: Signal| status.signal() == Some(signal.as_raw());
        let from_outside = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
        if from_outside.into_iter().any(is) {
            return Ending::Killed;
        }
        if is(Signal::SYS) { Ending::Forbidden } else { Ending::Failed }
    }

    pub(crate) fn error(self) -> Error {
        match self {
            Ending::Killed => {
                tracing::warn!("a script worker was killed from outside");
                worker_lost("the script's worker was killed from outside")
            }
            Ending::Forbidden => {
                tracing::error!(
                    "a script worker asked the kernel for what no worker asks for, and was ended"
                );
                Error::new(
                    ErrorKind::Forbidden,
                    "the script's worker asked the operating system for what scripts may not have and was ended; nothing the script wrote is kept",
                )
            }
            Ending::Failed => lost(),
        }
    }
}

/// Marks errors after which the same work may be tried again with another worker.
#[derive(Debug)]
struct WorkerLost;

impl fmt::Display for WorkerLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the worker is gone, and not by the script's fault")
    }
}

impl std::error::Error for WorkerLost {}

/// Whether a worker ended under a script that is not at fault: the script's effects are rolled back, and it
/// may be run again.
pub fn is_worker_lost(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<WorkerLost>())
}

/// Marks errors of runs with a wrongly foreseen answer.
#[derive(Debug)]
struct Misjudged;

impl fmt::Display for Misjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a call failed that the script took for done")
    }
}

impl std::error::Error for Misjudged {}

/// Whether a run is useless because a foreseen answer turned out to be wrong: its effects are rolled back,
/// and it is run again without foresight.
pub fn is_misjudged(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Misjudged>())
}

pub(crate) fn misjudged() -> Error {
    Error::internal("a script run was misjudged").with_source(Misjudged)
}

pub(crate) fn worker_lost(message: &str) -> Error {
    let message = format!("{message}; nothing the script wrote is kept: retry");
    Error::new(ErrorKind::Unavailable, message).with_source(WorkerLost).with_retry_after_ms(RETRY_AFTER_MS)
}

/// A worker that ended by itself, or sent an invalid message.
pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::Forbidden,
        "the script's worker ended, most likely out of memory; nothing the script wrote is kept",
    )
}

pub(crate) fn overran(time: Duration) -> Error {
    let seconds = time.as_secs_f32();
    Error::new(
        ErrorKind::Forbidden,
        format!(
            "the script ran for more than {seconds} s in a built-in function and was killed; nothing it wrote is kept"
        ),
    )
}

/// A number thrown by the script becomes the sub-status.
pub(crate) fn failed(failure: Failure) -> Error {
    let kind = match failure.kind {
        FailureKind::Script => ErrorKind::BadRequest,
        FailureKind::Numbered(number) => {
            return Error::bad_request(failure.message).with_substatus(number.into());
        }
        FailureKind::Limit => ErrorKind::Forbidden,
        FailureKind::Size => ErrorKind::TooLarge,
        FailureKind::Worker => ErrorKind::Internal,
    };
    Error::new(kind, failure.message)
}
