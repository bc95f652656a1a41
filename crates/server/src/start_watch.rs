//! The watch over a start: each step has a name and a time limit, and a start that takes long reports where it is.
//!
//! ```text
//! every 5 s         INFO   starting: step=…, seconds, activities
//! after 60 s        WARN   the threads, with state, kernel function and system call of each; again every 5 minutes
//! at a step's limit WARN   the threads once more; then the start ends with an error that names the step
//! ```
//!
//! The watch is a thread of its own: it reports also where every thread of the runtime is blocked. Stacks of user space would
//! need code that is not safe, or a debugger that stops the process. In their place it reports activities
//! (`stdx::Activity`), by which the code names the work that it does, and the state that the kernel has of each thread
//! ([`threads`]). `docs/reference.md` shows how an operator takes stacks with a debugger.
//!
//! The limit of a step ends its `await`. Steps that only read small files run on the main thread: a disk that does not answer
//! there is reported, and ends no wait.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardlake_stdx::{Activity, Clock};
use tokio::sync::watch;

/// For work that depends on how much is stored: journals are replayed, indexes of tables are read.
const LONG: Duration = Duration::from_mins(60);
/// For work that does not.
const SHORT: Duration = Duration::from_mins(5);

/// The steps of a start, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    FindData,
    Keys,
    Certificate,
    OpenStore,
    ArchivedLog,
    OpenAccount,
    Remember,
    Heat,
    Seed,
    Demo,
}

impl Step {
    pub fn name(self) -> &'static str {
        match self {
            Step::FindData => "find the data and open its shards",
            Step::Keys => "read the account's keys",
            Step::Certificate => "read or issue the certificate",
            Step::OpenStore => "take the account in the object store and open its shards",
            Step::ArchivedLog => "begin or end the archived log",
            Step::OpenAccount => "open the account",
            Step::Remember => "note which account lies here",
            Step::Heat => "read the heat of earlier runs",
            Step::Seed => "load the seed",
            Step::Demo => "load the demo",
        }
    }

    /// `None` for a step that waits for another server by design, or for data of any amount.
    fn limit(self) -> Option<Duration> {
        match self {
            Step::FindData | Step::OpenAccount => Some(LONG),
            Step::Keys | Step::Certificate | Step::ArchivedLog | Step::Remember | Step::Heat => Some(SHORT),
            // A standby waits for the end of another server's lease.
            Step::OpenStore | Step::Seed | Step::Demo => None,
        }
    }
}

/// How often the watch reports, and after how long.
#[derive(Debug, Clone, Copy)]
struct Times {
    progress: Duration,
    threads: Duration,
    threads_again: Duration,
    /// Each limit is divided by this.
    limits_divided_by: u32,
}

const TIMES: Times = Times {
    progress: Duration::from_secs(5),
    threads: Duration::from_secs(60),
    threads_again: Duration::from_mins(5),
    limits_divided_by: 1,
};

/// Lasts as long as the start.
pub struct StartWatch {
    shared: Arc<Shared>,
    given_up: watch::Receiver<Option<String>>,
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
    given_up: watch::Sender<Option<String>>,
}

struct State {
    step: Step,
    step_began: Duration,
    is_over: bool,
}

impl StartWatch {
    pub fn begin() -> Result<StartWatch, String> {
        StartWatch::with(TIMES)
    }

    fn with(times: Times) -> Result<StartWatch, String> {
        let began = Clock::System.elapsed();
        let (sender, given_up) = watch::channel(None);
        let state = State { step: Step::FindData, step_began: began, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), ended: Condvar::new(), given_up: sender });
        let watched = shared.clone();
        std::thread::Builder::new()
            .name("start-watch".into())
            .spawn(move || watched.run(times, began))
            .map_err(|error| format!("the thread that watches the start cannot begin: {error}"))?;
        Ok(StartWatch { shared, given_up })
    }

    pub fn enter(&self, step: Step) {
        let mut state = self.shared.lock();
        (state.step, state.step_began) = (step, Clock::System.elapsed());
    }

    /// Resolves when a step has taken longer than it may, with the error to show.
    pub async fn given_up(&self) -> String {
        let mut given_up = self.given_up.clone();
        match given_up.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The watch has ended, and gives up no more.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for StartWatch {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.ended.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, times: Times, began: Duration) {
        let mut threads_due = began + times.threads;
        loop {
            let state = self.ended.wait_timeout_while(self.lock(), times.progress, |state| !state.is_over);
            let state = state.unwrap_or_else(PoisonError::into_inner).0;
            if state.is_over {
                return;
            }
            let (step, step_began) = (state.step, state.step_began);
            drop(state);
            let now = Clock::System.elapsed();
            let (in_all, in_step) = (now - began, now.saturating_sub(step_began));
            let activities = activities();
            let seconds = in_all.as_secs();
            tracing::info!(
                step = step.name(),
                seconds,
                step_seconds = in_step.as_secs(),
                activities,
                "starting"
            );
            let limit = step.limit().map(|limit| limit / times.limits_divided_by);
            let is_given_up = limit.is_some_and(|limit| in_step >= limit);
            if now >= threads_due || is_given_up {
                threads_due = now + times.threads_again;
                let threads = threads(Path::new("/proc/self/task"));
                tracing::warn!(step = step.name(), seconds, "the start takes long; its threads:\n{threads}");
            }
            if is_given_up {
                let reason = format!(
                    "the start is given up: the step '{}' has taken {} seconds; it was at: {activities}",
                    step.name(),
                    in_step.as_secs()
                );
                self.given_up.send_replace(Some(reason));
                return;
            }
        }
    }
}

fn activities() -> String {
    let all = Activity::all();
    if all.is_empty() {
        return "none".to_owned();
    }
    let named = |(name, lasted): &(String, Duration)| format!("{name} ({} s)", lasted.as_secs());
    all.iter().map(named).collect::<Vec<_>>().join("; ")
}

/// One line for each thread of this process: number, name, state, processor time, the function of the kernel that it waits in,
/// and its system call with arguments. The kernel's stack follows where the system shows it, which it does to root alone.
fn threads(tasks: &Path) -> String {
    let mut lines = String::new();
    let Ok(entries) = fs::read_dir(tasks) else { return "the system shows none".to_owned() };
    let mut numbers: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    numbers.sort_unstable();
    for task in numbers {
        let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
        let number = task.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (name, stat, waits_in) = (read("comm"), read("stat"), read("wchan"));
        let call = read("syscall");
        let (state, ticks) = state_of(&stat);
        let _infallible = writeln!(
            lines,
            "thread {number} {}: {state}, {ticks} ticks, waits in {}, call {}",
            name.trim(),
            if waits_in.is_empty() { "?" } else { waits_in.trim() },
            if call.is_empty() { "?" } else { call.trim() },
        );
        for frame in read("stack").lines() {
            let _infallible = writeln!(lines, "    {frame}");
        }
    }
    lines
}

/// The state's letter and the processor time in ticks, from `/proc/…/stat`. The name in parentheses may hold anything.
fn state_of(stat: &str) -> (&str, u64) {
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    (fields.first().copied().unwrap_or("?"), ticks(11) + ticks(12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn step_that_takes_longer_than_it_may_ends_the_start_with_its_name() {
        let at_once = Duration::from_millis(1);
        let times = Times {
            progress: at_once,
            threads: at_once,
            threads_again: at_once,
            limits_divided_by: u32::MAX,
        };
        let watch = StartWatch::with(times).expect("a thread");
        // Steps without a limit are only reported.
        watch.enter(Step::Demo);
        let _activity = Activity::begin("waits for this test");
        watch.enter(Step::OpenAccount);
        let reason = watch.given_up().await;
        assert!(reason.contains("'open the account'"), "{reason}");
        assert!(reason.contains("waits for this test"), "{reason}");
    }

    #[test]
    fn every_thread_is_described() {
        let (begun, begins) = std::sync::mpsc::sync_channel::<()>(0);
        let waiting = std::thread::Builder::new().name("a ) waiter".into()).spawn(move || begins.recv());
        let described = loop {
            let described = threads(Path::new("/proc/self/task"));
            if described.contains("a ) waiter: S") {
                break described;
            }
            std::thread::yield_now();
        };
        drop(begun);
        let ended = waiting.expect("a thread").join().expect("it does not panic");
        assert!(ended.is_err());
        assert!(described.lines().filter(|line| line.starts_with("thread ")).count() >= 2, "{described}");
        assert_eq!(state_of("12 (a ) b) R 1 2 3 4 5 6 7 8 9 10 30 12 0 0"), ("R", 42));
        assert_eq!(state_of(""), ("?", 0));
    }

    #[test]
    fn steps_have_names_of_their_own() {
        let steps = [
            Step::FindData,
            Step::Keys,
            Step::Certificate,
            Step::OpenStore,
            Step::ArchivedLog,
            Step::OpenAccount,
            Step::Remember,
            Step::Heat,
            Step::Seed,
            Step::Demo,
        ];
        let names: std::collections::HashSet<_> = steps.iter().map(|step| step.name()).collect();
        assert_eq!(names.len(), steps.len());
    }
}
