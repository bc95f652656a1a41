//! The workers: started when first needed, kept for the next order, replaced when they are killed or have served enough.
//!
//! An order takes a permit, then an idle worker or a new one. Who waits for a permit is counted, so that the queue has a bound. A
//! worker goes back only from [`Leased::give_back`]; dropped in any other way, be it by an error, a limit or a client that
//! went away, it is in the middle of something and is killed. Killed processes are reaped by whoever comes next, which costs no thread.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardlake_model::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::settings::{ScriptSettings, WorkerKind};
use crate::worker;

/// More than engines are allowed to use, for workers on threads.
const THREAD_STACK_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Pool {
    settings: ScriptSettings,
    /// For scripts. A script's query may call functions, so those have permits of their own: scripts that hold all of theirs
    /// would else wait for functions that wait for them.
    permits: Arc<Semaphore>,
    function_permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Worker>,
    /// Killed or asked to end, not yet reaped.
    ending: Vec<Child>,
}

#[derive(Debug)]
struct Worker {
    stream: UnixStream,
    /// None for a thread, which ends with its stream.
    process: Option<Child>,
}

/// A worker for one order.
#[derive(Debug)]
pub(crate) struct Leased {
    pool: Arc<Pool>,
    worker: Option<Worker>,
    _turn: Turn,
}

/// The right to one worker at a time, for one script or several that follow one another.
#[derive(Debug, Clone)]
pub struct Turn(
    #[expect(dead_code, reason = "held, and given back with the last copy")] Arc<OwnedSemaphorePermit>,
);

impl Pool {
    pub(crate) fn new(settings: ScriptSettings) -> Pool {
        let permits = || Arc::new(Semaphore::new(settings.workers_max.max(1)));
        let (permits, function_permits) = (permits(), permits());
        Pool { settings, permits, function_permits, waiting: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// A turn for scripts.
    pub(crate) async fn turn(&self) -> Result<Turn> {
        self.permit(&self.permits).await
    }

    /// The same for those who do not wait.
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        try_permit(&self.permits)
    }

    /// A worker for functions, for those who may not wait in the runtime.
    pub(crate) fn lease_blocking(self: &Arc<Self>) -> Result<Leased> {
        let turn = futures::executor::block_on(self.permit(&self.function_permits))?;
        self.lease(&turn)
    }

    async fn permit(&self, permits: &Arc<Semaphore>) -> Result<Turn> {
        if let Some(turn) = try_permit(permits) {
            return Ok(turn);
        }
        let waiting = Waiting::enter(&self.waiting);
        if waiting.others >= self.settings.waiting_max {
            return Err(unavailable("too many scripts wait to be run"));
        }
        let permit = Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed");
        Ok(Turn(Arc::new(permit)))
    }

    /// A worker for whoever's turn it is.
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
        Ok(Leased { pool: Arc::clone(self), worker: Some(worker), _turn: turn.clone() })
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
        // Killed processes are gone soon; nobody comes after us to reap them.
        for mut child in state.ending.drain(..) {
            let _ = child.wait();
        }
    }
}

impl State {
    fn reap(&mut self) {
        self.ending.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// An idle worker that nobody has killed meanwhile.
    fn take_idle(&mut self) -> Option<Worker> {
        while let Some(mut worker) = self.idle.pop() {
            let is_alive = |process: &mut Child| matches!(process.try_wait(), Ok(None));
            if worker.process.as_mut().is_none_or(is_alive) {
                return Some(worker);
            }
        }
        None
    }

    /// Kills a process; a thread ends when it next looks at its stream.
    fn end(&mut self, worker: Worker) {
        let _ = worker.stream.shutdown(std::net::Shutdown::Both);
        if let Some(mut process) = worker.process {
            let _ = process.kill();
            self.ending.push(process);
        }
    }
}

impl Leased {
    pub(crate) fn stream(&self) -> io::Result<UnixStream> {
        self.worker.as_ref().expect("held until given back").stream.try_clone()
    }

    /// After an order that ended: the next one may have the worker.
    pub(crate) fn give_back(mut self) {
        if let Some(worker) = self.worker.take() {
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

fn try_permit(permits: &Arc<Semaphore>) -> Option<Turn> {
    Arc::clone(permits).try_acquire_owned().ok().map(|permit| Turn(Arc::new(permit)))
}

/// Counts who waits, until it is dropped.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    others: usize,
}

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Waiting<'a> {
        Waiting { count, others: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

fn start(kind: &WorkerKind) -> io::Result<Worker> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let process = match kind {
        WorkerKind::Process { program, arguments } => Some(
            Command::new(program)
                .args(arguments)
                // Nothing of the server's: no keys in variables, no directory, no output.
                .env_clear()
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
                .spawn(move || worker::serve(theirs, &mut worker::Confinement::of_thread()))?;
            None
        }
    };
    Ok(Worker { stream: ours, process })
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}
