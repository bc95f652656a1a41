//! Worker processes: started when first needed, kept for the next query, killed and reaped when a query did not end by itself.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardlake_stdx::Clock;

use crate::protocol::{Failure, FailureKind};

/// Queries after which a worker is replaced, so that nothing accumulates without end.
const QUERIES_MAX: u32 = 200;
/// An idle worker's memory is given back after this time.
const IDLE_MAX: Duration = Duration::from_secs(120);
const SIGNAL_ABORT: i32 = 6;
const SIGNAL_KILL: i32 = 9;

/// The program that serves its standard input as a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerProgram {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Workers {
    program: WorkerProgram,
    idle: Arc<Mutex<Vec<Worker>>>,
}

/// A worker process. Dropping it kills it; it is reaped, and its spill files are deleted, on a thread of their own: a process with much
/// memory ends slowly.
#[derive(Debug)]
pub(super) struct Worker {
    stream: UnixStream,
    /// `None` only while it is dropped.
    process: Option<Child>,
    /// Folder of the query's spill files.
    spill: Option<SpillFolder>,
    queries: u32,
    idle_since: Duration,
}

impl Workers {
    pub fn new(program: WorkerProgram) -> Workers {
        Workers { program, idle: Arc::default() }
    }

    /// An idle worker that is alive, or a new one.
    pub fn take(&self, spill: SpillFolder) -> Result<Worker, Failure> {
        let mut worker = self.idle_or_new()?;
        worker.spill = Some(spill);
        Ok(worker)
    }

    fn idle_or_new(&self) -> Result<Worker, Failure> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut worker) = idle else { break };
            if worker.try_wait().is_ok_and(|ended| ended.is_none()) {
                return Ok(worker);
            }
        }
        self.start().map_err(|error| {
            Failure::new(FailureKind::Lost, format!("no worker for queries can be started: {error}; retry"))
        })
    }

    fn start(&self) -> io::Result<Worker> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let process = Command::new(&self.program.program)
            .args(&self.program.arguments)
            // The worker gets nothing from the server: no keys in variables, no directory, no output.
            .env_clear()
            .env("TZ", "UTC0")
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Some(process);
        Ok(Worker { stream: ours, process, spill: None, queries: 0, idle_since: Clock::System.elapsed() })
    }

    /// Keeps a worker whose query has ended.
    pub fn give_back(&self, mut worker: Worker) {
        worker.spill = None;
        worker.queries += 1;
        if worker.queries >= QUERIES_MAX {
            return;
        }
        worker.idle_since = Clock::System.elapsed();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        let idle = Arc::downgrade(&self.idle);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE_MAX).await;
            let Some(idle) = idle.upgrade() else { return };
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|worker| Clock::System.elapsed().saturating_sub(worker.idle_since) < IDLE_MAX);
        });
    }
}

impl Worker {
    /// The worker's socket for code in the current runtime.
    pub fn stream(&self) -> io::Result<tokio::net::UnixStream> {
        tokio::net::UnixStream::from_std(self.stream.try_clone()?)
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.as_mut().expect("it is not dropped").try_wait()
    }

    /// Why a worker whose stream has ended did so.
    pub async fn ending(mut self) -> Failure {
        for _ in 0..1_000 {
            match self.try_wait() {
                Ok(Some(status)) => return of_signal(status.signal()),
                Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(_) => break,
            }
        }
        of_signal(None)
    }
}

fn of_signal(signal: Option<i32>) -> Failure {
    match signal {
        // Memory that the pool does not count: the allocator, or the system, ended the process.
        Some(SIGNAL_ABORT | SIGNAL_KILL) => Failure::new(
            FailureKind::NeedsTooMuch,
            "the query needed more memory than its worker has: filter or aggregate earlier, or raise --analytics-sql-memory",
        ),
        _ => Failure::new(
            FailureKind::Lost,
            "the query's worker ended: retry, and report the statement if it ends again",
        ),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let (Some(mut process), spill) = (self.process.take(), self.spill.take()) else { return };
        let _ = process.kill();
        let reap = move || {
            let _ = process.wait();
            // Its last file may have been made meanwhile.
            drop(spill);
        };
        let _ = std::thread::Builder::new().name("sql-reaper".into()).spawn(reap);
    }
}

/// The folder of one query's spill files; deleted with everything in it.
#[derive(Debug)]
pub(super) struct SpillFolder(PathBuf);

impl SpillFolder {
    pub fn create(path: PathBuf) -> io::Result<SpillFolder> {
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(SpillFolder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(folder = %self.0.display(), %error, "spill files of a query stay behind");
            }
            _ => {}
        }
    }
}
