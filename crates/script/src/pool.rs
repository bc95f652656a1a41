//! The workers: started when first needed, kept for the next order, replaced when they are killed or have served enough.
//!
//! An order takes a turn (`turns.rs`), then an idle worker or a new one. A worker goes back only by
//! [`Leased::give_back`]. If its lease is dropped in any other way, by an error, a limit or a client that
//! disconnected, the worker is in the middle of an order and is killed. Killed processes are reaped by the
//! next lease, which needs no thread.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardlake_model::{Error, ErrorKind, Result};

use crate::confined::Confined;
use crate::endings::Ending;
use crate::line::Line;
use crate::settings::{ScriptSettings, WorkerKind};
use crate::turns::{Rules, Turn, Turns};
use crate::worker;

/// Stack of worker threads; more than engines are allowed to use.
const THREAD_STACK_BYTES: usize = 4 << 20;
/// Checks of a process whose stream has ended, a millisecond apart, before it counts as still running.
const LOOKS_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Pool {
    settings: ScriptSettings,
    turns: Arc<Turns>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Worker>,
    /// Killed or asked to end, not yet reaped.
    ending: Vec<Child>,
    /// The confinement that the newest worker process reported.
    confined: Option<Confined>,
}

#[derive(Debug)]
struct Worker {
    stream: UnixStream,
    /// The line of the last conversation, for the next one.
    line: Option<Line>,
    /// None for a thread, which ends with its stream.
    process: Option<Child>,
    /// Its first message has not arrived yet.
    is_new: bool,
}

/// A worker for one order.
#[derive(Debug)]
pub(crate) struct Leased {
    pool: Arc<Pool>,
    worker: Option<Worker>,
    turn: Turn,
}

impl Pool {
    pub(crate) fn new(settings: ScriptSettings) -> Pool {
        let rules = Rules {
            workers_max: settings.workers_max.max(1),
            waiting_max: settings.waiting_max,
            waiting_of_container_max: settings.waiting_of_container_max,
        };
        let turns = Turns::new(rules, settings.clock.clone());
        Pool { settings, turns, state: Mutex::default() }
    }

    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// The confinement of worker processes; `None` before the first one.
    pub(crate) fn confined(&self) -> Option<Confined> {
        self.state().confined
    }

    /// A worker for the holder of a turn.
    pub(crate) fn lease(self: &Arc<Self>, turn: &Turn) -> Result<Leased> {
        let idle = {
            let mut state = self.state();
            state.reap();
            state.take_idle()
        };
        let worker = match idle {
            Some(worker) => worker,
            None => start(&self.settings.workers)
                .map_err(|error| unavailable("no script worker can be started").with_source(error))?,
        };
        Ok(Leased { pool: Arc::clone(self), worker: Some(worker), turn: turn.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.state();
        while let Some(worker) = state.idle.pop() {
            state.end(worker);
        }
        // Killed processes end soon, and no later lease would reap them.
        for mut child in state.ending.drain(..) {
            let _ = child.wait();
        }
    }
}

impl State {
    fn reap(&mut self) {
        self.ending.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// An idle worker that is still alive.
    fn take_idle(&mut self) -> Option<Worker> {
        while let Some(mut worker) = self.idle.pop() {
            let is_alive = |process: &mut Child| matches!(process.try_wait(), Ok(None));
            if worker.process.as_mut().is_none_or(is_alive) {
                return Some(worker);
            }
        }
        None
    }

    /// Kills a process; a thread ends when it next reads its stream.
    fn end(&mut self, worker: Worker) {
        let _ = worker.stream.shutdown(std::net::Shutdown::Both);
        if let Some(mut process) = worker.process {
            let _ = process.kill();
            self.ending.push(process);
        }
    }
}

impl Leased {
    /// For code in the server's runtime: the existing line, or a new one.
    pub(crate) fn line(&mut self) -> io::Result<Line> {
        let worker = self.worker.as_mut().expect("held until given back");
        match worker.line.take().filter(Line::is_of_this_runtime) {
            Some(line) => Ok(line),
            None => Line::new(&worker.stream),
        }
    }

    /// For callers that may block. The stream then has no other reader.
    pub(crate) fn blocking_stream(&mut self) -> io::Result<UnixStream> {
        let worker = self.worker.as_mut().expect("held until given back");
        worker.line = None;
        worker.stream.set_nonblocking(false)?;
        worker.stream.try_clone()
    }

    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Whether the worker's first message, its confinement, is still to come.
    pub(crate) fn is_new(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.is_new)
    }

    pub(crate) fn greeted(&mut self, confined: Confined) {
        let Some(worker) = &mut self.worker else { return };
        worker.is_new = false;
        if worker.process.is_none() {
            return;
        }
        let before = self.pool.state().confined.replace(confined);
        let missing = confined.missing();
        if before != Some(confined) && !missing.is_empty() {
            let missing = missing.join(", ");
            tracing::warn!(%missing, "the kernel confines script workers less than it should");
        }
    }

    /// The reason why a worker whose stream has ended did so.
    pub(crate) async fn ending(&mut self) -> Ending {
        for _ in 0..LOOKS_MAX {
            if let Some(ending) = self.look() {
                return ending;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ending::Failed
    }

    /// Like `ending`, for callers that may block.
    pub(crate) fn ending_blocking(&mut self) -> Ending {
        for _ in 0..LOOKS_MAX {
            if let Some(ending) = self.look() {
                return ending;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ending::Failed
    }

    fn look(&mut self) -> Option<Ending> {
        match self.worker.as_mut().and_then(|worker| worker.process.as_mut()) {
            Some(process) => process.try_wait().ok()?.map(Ending::of),
            None => Some(Ending::Failed),
        }
    }

    /// Returns the worker and its line after an order that ended.
    pub(crate) fn give_back(mut self, line: Option<Line>) {
        if let Some(mut worker) = self.worker.take() {
            worker.line = line;
            self.pool.state().idle.push(worker);
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            let mut state = self.pool.state();
            state.end(worker);
            state.reap();
        }
    }
}

fn start(kind: &WorkerKind) -> io::Result<Worker> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let process = match kind {
        WorkerKind::Process { program, arguments } => Some(
            Command::new(program)
                .args(arguments)
                // The worker gets nothing from the server: no keys in variables, no directory, no output.
                // Without files there are no time zones either.
                .env_clear()
                .env("TZ", "UTC0")
                .current_dir("/")
                .stdin(OwnedFd::from(theirs))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?,
        ),
        WorkerKind::Thread => {
            std::thread::Builder::new()
                .name("script-worker".into())
                .stack_size(THREAD_STACK_BYTES)
                .spawn(move || worker::serve_on_thread(theirs))?;
            None
        }
    };
    Ok(Worker { stream: ours, line: None, process, is_new: true })
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}
