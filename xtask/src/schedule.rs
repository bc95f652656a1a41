//! Concurrent suites: each begins when its build is complete and a place is free, in a process of its own.
//!
//! ```text
//! cargo      server ─── workspace ─── mongo-rust ─── rust-sdk ─── engine ─── lints      one build after another
//! suites  explorer │ python, stores … │ workspace …                                    at most `AT_ONCE`
//! ```
//! A build that failed fails the suites that need it. The output of a suite is written to a file
//! and is printed when it ends.

use crate::suites::{Build, Run, Suite, SuiteResult};
use crate::{Outcome, processor_time, suites};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Most suites wait for a server or a client half of the time: two processors carry two of them next to cargo.
const AT_ONCE: usize = 2;

/// `cargo xtask suite NAME`: one suite, in the process that runs it.
#[derive(Debug, Args)]
pub struct SuiteOptions {
    name: String,
    /// File for the results
    #[arg(long)]
    results: PathBuf,
}

/// Results of a suite, as its process leaves them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ended {
    pub results: Result<Vec<SuiteResult>, String>,
    pub seconds: f64,
    /// Processor seconds of the process and of all children that it waited for.
    pub processor_seconds: f64,
}

pub fn run_suite(options: &SuiteOptions) -> Outcome {
    let chosen = suites::choose(std::slice::from_ref(&options.name))?;
    let skip_log = options.results.with_extension("skips.jsonl");
    let started = Instant::now();
    let results = (chosen[0].run)(&Run { skip_log: &skip_log }).map_err(|error| error.to_string());
    let (seconds, processor_seconds) = (started.elapsed().as_secs_f64(), processor_time::so_far());
    let ended = Ended { results, seconds, processor_seconds };
    Ok(std::fs::write(&options.results, serde_json::to_vec(&ended)?)?)
}

/// A step of cargo and its duration.
#[derive(Debug)]
pub struct Built {
    pub name: String,
    pub seconds: f64,
    pub failure: Option<String>,
}

/// A check that cargo makes after all builds.
#[derive(Debug)]
pub struct Check {
    pub name: &'static str,
    pub run: fn() -> Outcome,
}

/// The results of all suites in the order of their ends, and the steps of cargo.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub suites: Vec<(&'static str, Ended)>,
    pub steps: Vec<Built>,
    /// Lines of the suites' outputs that report a failed test.
    pub failures: Vec<String>,
}

/// As the test runners of Rust, Python, Node.js, Go and Java write them.
const MARKS_OF_FAILURE: [&str; 6] =
    ["FAILED", "not ok ", "--- FAIL", "panicked at", "[ERROR]", "ended with signal"];
/// Of one suite.
const FAILURES_MAX: usize = 20;

/// Runs the suites concurrently with the builds that they need and these checks.
pub fn run(suites: &[&'static Suite], checks: &[Check], scratch: &Path) -> Outcomes {
    let builds = builds_of(suites);
    let floor = Floor {
        state: Mutex::new(State { waiting: suites.to_vec(), ..State::default() }),
        changed: Condvar::new(),
        scratch,
    };
    let mut steps = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| floor.run_suites());
        }
        for build in &builds {
            let step = timed(&format!("build {build:?}"), || build.run());
            floor.built(*build, step.failure.clone());
            steps.push(step);
        }
        steps.extend(checks.iter().map(|check| timed(check.name, check.run)));
    });
    let State { ended, failures, .. } = floor.state.into_inner().expect("no runner panics");
    assert_eq!(ended.len(), suites.len(), "each suite has an outcome");
    Outcomes { suites: ended, steps, failures }
}

/// In the order in which cargo makes them. The server comes first, even where all test programs follow: suites that need
/// nothing else begin while those compile.
fn builds_of(suites: &[&'static Suite]) -> Vec<Build> {
    let mut builds: Vec<Build> = suites.iter().flat_map(|suite| suite.build.with_the_server()).collect();
    builds.sort_unstable();
    builds.dedup();
    builds
}

fn timed(name: &str, step: impl FnOnce() -> Outcome) -> Built {
    println!("--- {name} begins");
    let started = Instant::now();
    let failure = step().err().map(|error| format!("{name}: {error}"));
    let seconds = started.elapsed().as_secs_f64();
    let end = if failure.is_some() { "failed" } else { "ended" };
    println!("--- {name} {end} after {seconds:.0} s");
    Built { name: name.to_owned(), seconds, failure }
}

struct Floor<'a> {
    state: Mutex<State>,
    changed: Condvar,
    scratch: &'a Path,
}

#[derive(Default)]
struct State {
    waiting: Vec<&'static Suite>,
    /// The builds that have ended, and why one failed.
    builds: BTreeMap<Build, Option<String>>,
    ended: Vec<(&'static str, Ended)>,
    failures: Vec<String>,
}

impl Floor<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no runner panics")
    }

    fn built(&self, build: Build, failure: Option<String>) {
        self.state().builds.insert(build, failure);
        self.changed.notify_all();
    }

    fn run_suites(&self) {
        while let Some((suite, failure)) = self.next() {
            let ended = match failure {
                Some(failure) => Ended { results: Err(failure), seconds: 0.0, processor_seconds: 0.0 },
                None => self.run(suite),
            };
            self.state().ended.push((suite.name, ended));
        }
    }

    /// The next suite with completed builds, and the reason if one of them failed; `None` when no suite waits.
    fn next(&self) -> Option<(&'static Suite, Option<String>)> {
        let mut state = self.state();
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            let State { waiting, builds, .. } = &*state;
            let is_ready = |suite: &&'static Suite| {
                suite.build.with_the_server().iter().all(|build| builds.contains_key(build))
            };
            if let Some(place) = waiting.iter().position(is_ready) {
                let suite = waiting[place];
                let failure =
                    suite.build.with_the_server().iter().find_map(|build| builds.get(build)?.clone());
                state.waiting.remove(place);
                return Some((suite, failure));
            }
            state = self.changed.wait(state).expect("no runner panics");
        }
    }

    fn run(&self, suite: &Suite) -> Ended {
        println!("--- suite {} begins", suite.name);
        let log = self.scratch.join(format!("{}.log", suite.name));
        let ended = self.run_process(suite, &log);
        let ended = ended.unwrap_or_else(|error| Ended {
            results: Err(error.to_string()),
            seconds: 0.0,
            processor_seconds: 0.0,
        });
        let output = std::fs::read(&log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        // One call, so that the lines of two suites do not mix.
        println!("\n=== {} ===\n{output}", suite.name);
        self.state().failures.extend(failures_in(&output).map(|line| format!("{}: {line}", suite.name)));
        println!(
            "--- suite {} ended after {:.0} s, {:.0} s of processors",
            suite.name, ended.seconds, ended.processor_seconds
        );
        ended
    }

    fn run_process(&self, suite: &Suite, log: &Path) -> Outcome<Ended> {
        let results = self.scratch.join(format!("{}.json", suite.name));
        let output = File::create(log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["suite", suite.name, "--results"]).arg(&results);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let status = command.status()?;
        let text = std::fs::read(&results).map_err(|_| format!("{} ended with {status}", suite.name))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

fn failures_in(output: &str) -> impl Iterator<Item = &str> {
    let is_failure = |line: &&str| MARKS_OF_FAILURE.iter().any(|mark| line.contains(mark));
    output.lines().filter(is_failure).take(FAILURES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_found_in_the_output_of_a_suite() {
        let output = "test a ... ok\ntest b ... FAILED\nok 1 - c\nnot ok 2 - d\n";
        assert_eq!(failures_in(output).collect::<Vec<_>>(), ["test b ... FAILED", "not ok 2 - d"]);
        let long = "not ok 1\n".repeat(FAILURES_MAX + 1);
        assert_eq!(failures_in(&long).count(), FAILURES_MAX);
    }

    #[test]
    fn the_server_is_built_before_everything_that_runs_beside_it() {
        let all = suites::choose(&[]).expect("all");
        assert_eq!(builds_of(&all)[..2], [Build::Server, Build::Workspace]);
        let one = suites::choose(&["rust-sdk".to_owned()]).expect("one");
        assert_eq!(builds_of(&one), [Build::Server, Build::RustSdk]);
        let none = suites::choose(&["explorer".to_owned()]).expect("one");
        assert_eq!(builds_of(&none), []);
    }

    #[test]
    fn a_suite_whose_build_failed_does_not_run() {
        let scratch = Path::new("/no/such/directory");
        let suite = suites::choose(&["rust-sdk".to_owned()]).expect("one");
        let floor = Floor {
            state: Mutex::new(State { waiting: suite, ..State::default() }),
            changed: Condvar::new(),
            scratch,
        };
        floor.built(Build::Server, None);
        floor.built(Build::RustSdk, Some("no linker".to_owned()));
        floor.run_suites();
        let ended = &floor.state().ended[0];
        assert_eq!((ended.0, ended.1.results.as_ref().err()), ("rust-sdk", Some(&"no linker".to_owned())));
    }
}
