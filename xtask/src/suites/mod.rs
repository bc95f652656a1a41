//! The suites of `cargo xtask test`, in the order they run: cheap and local first.

mod engine;
pub mod explorer;
mod javascript;
mod mongo;
mod mongo_rust;
mod pymongo;
mod python;
mod rust_sdk;
mod stores;
mod workspace;

pub use workspace::FEATURES;

use crate::command::run_to_end;
use crate::tally::{Skip, Tally};
use crate::{Outcome, project};
use shardlake_testkit::{ServerOptions, ServerProcess};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// One line of the report. A suite may report several, each held to its own minimum.
#[derive(Debug, Clone)]
pub struct SuiteResult {
    pub suite: String,
    pub tally: Tally,
    /// As many as the tally counts, as far as the runner says which.
    pub skips: Vec<Skip>,
    /// Something wrong that the counts do not show.
    pub objection: Option<String>,
}

impl SuiteResult {
    /// `ended_well` is the exit status of the runner, which must agree with the counts.
    fn new(suite: &str, tally: Option<Tally>, ended_well: bool) -> SuiteResult {
        let objection = match (tally, ended_well) {
            (None, _) => Some(format!("{suite} reported no counts")),
            (Some(tally), false) if tally.failed == 0 => Some(format!("{suite} failed outside its tests")),
            _ => None,
        };
        SuiteResult {
            suite: suite.to_owned(),
            tally: tally.unwrap_or_default(),
            skips: Vec::new(),
            objection,
        }
    }

    /// A server that warned is not well, whatever the tests say.
    fn with_log_of(mut self, server: &ServerProcess) -> SuiteResult {
        let unexpected = server.take_unexpected_log();
        if !unexpected.is_empty() {
            self.objection = Some(format!("the server of {} warned:\n{}", self.suite, unexpected.join("\n")));
        }
        self
    }

    /// Tests that returned early for want of data passed in the eyes of their runner; here they count as skipped. A test
    /// counts once, however often it asked.
    fn with_noted_skips(mut self, log: &Path) -> SuiteResult {
        let noted = std::fs::read_to_string(log).unwrap_or_default();
        let mut by_test = BTreeMap::new();
        for line in noted.lines() {
            match serde_json::from_str::<Skip>(line) {
                Ok(skip) => drop(by_test.insert(skip.test.clone(), skip)),
                Err(error) => {
                    self.objection = Some(format!("{}: a skip that cannot be read: {error}", self.suite))
                }
            }
        }
        let count = by_test.len() as u64;
        if count > self.tally.passed {
            self.objection = Some(format!("{}: more tests were skipped than passed", self.suite));
        }
        self.tally.passed = self.tally.passed.saturating_sub(count);
        self.tally.skipped += count;
        self.skips.extend(by_test.into_values());
        self
    }
}

/// What a suite gets for its run, and the time it spent on building.
#[derive(Debug)]
pub struct Run<'a> {
    /// The file in which tests note that they were skipped.
    pub skip_log: &'a Path,
    building: Cell<Duration>,
}

/// Started so far, by all suites: two that run over one store have different prefixes.
static SERVERS: AtomicU32 = AtomicU32::new(0);

impl Run<'_> {
    pub fn new(skip_log: &Path) -> Run<'_> {
        Run { skip_log, building: Cell::default() }
    }

    /// Runs a command that compiles. Its time is reported apart, because it depends on what was built before.
    fn build(&self, command: &mut Command) -> Outcome {
        let started = Instant::now();
        let outcome = run_to_end(command);
        self.building.set(self.building.get() + started.elapsed());
        outcome
    }

    pub fn built_for(&self) -> Duration {
        self.building.get()
    }

    /// A server for this suite alone, from the build that the workspace tests use. It refuses no request for its throughput:
    /// the suites ask for some to get partitions, and are not written for a server that throttles them.
    fn start_server(&self) -> Outcome<ServerProcess> {
        self.start_server_with(&[])
    }

    /// The same with more arguments.
    fn start_server_with(&self, arguments: &[&str]) -> Outcome<ServerProcess> {
        self.build(&mut workspace::server_build())?;
        let options = ServerOptions::new(project::server_binary("debug"));
        let options = options.argument("--throughput=unlimited");
        let options = arguments.iter().fold(options, |options, argument| options.argument(*argument));
        // Where the suites are run over a store: see `tests-sdk/stores`.
        let options = match std::env::var("SHARDLAKE_TEST_STORE") {
            Ok(store) => {
                let number = SERVERS.fetch_add(1, Ordering::Relaxed);
                options.argument(format!("--store={store}/{}-{number}", std::process::id()))
            }
            Err(_) => options,
        };
        Ok(options.try_start()?)
    }
}

pub struct Suite {
    pub name: &'static str,
    pub run: fn(&Run<'_>) -> Outcome<Vec<SuiteResult>>,
}

const SUITES: &[Suite] = &[
    Suite { name: "workspace", run: workspace::run },
    Suite { name: "durability", run: workspace::run_durability },
    Suite { name: "engine", run: engine::run },
    Suite { name: "stores", run: stores::run },
    Suite { name: "explorer", run: explorer::run_sources },
    Suite { name: "explorer-browser", run: explorer::run_browser },
    Suite { name: "javascript", run: javascript::run },
    Suite { name: "python-own", run: python::run_own },
    Suite { name: "python", run: python::run_sdk_tests },
    Suite { name: "rust-sdk", run: rust_sdk::run },
    Suite { name: "mongo-drivers", run: mongo::run_drivers },
    Suite { name: "mongo-cases", run: mongo::run_cases },
    Suite { name: "mongo-rust", run: mongo_rust::run },
    Suite { name: "pymongo", run: pymongo::run },
];

/// All suites, or those named.
pub fn choose(names: &[String]) -> Outcome<Vec<&'static Suite>> {
    if let Some(unknown) = names.iter().find(|name| SUITES.iter().all(|suite| suite.name != name.as_str())) {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(format!("there is no suite '{unknown}'; there are {}", known.join(", ")).into());
    }
    Ok(SUITES
        .iter()
        .filter(|suite| names.is_empty() || names.iter().any(|name| name == suite.name))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_name() {
        assert_eq!(choose(&[]).expect("all").len(), SUITES.len());
        assert_eq!(choose(&["python".to_owned()]).expect("one")[0].name, "python");
        assert!(choose(&["nosuch".to_owned()]).is_err());
    }

    #[test]
    fn a_runner_that_died_is_noticed() {
        assert!(SuiteResult::new("a", None, true).objection.is_some());
        assert!(SuiteResult::new("a", Some(Tally::default()), false).objection.is_some());
        let failed = Tally { passed: 1, failed: 1, skipped: 0 };
        assert!(SuiteResult::new("a", Some(failed), false).objection.is_none(), "the count says it");
    }

    #[test]
    fn a_noted_skip_is_not_a_pass() {
        let log = tempfile::NamedTempFile::new().expect("a temporary file");
        let notes = ["a", "b", "a"].map(|test| format!("{{\"test\":\"{test}\",\"reason\":\"no data\"}}\n"));
        std::fs::write(log.path(), notes.concat()).expect("it can be written");
        let five = Tally { passed: 5, failed: 0, skipped: 1 };
        let result = SuiteResult::new("s", Some(five), true).with_noted_skips(log.path());
        assert_eq!(result.tally, Tally { passed: 3, failed: 0, skipped: 3 });
        assert_eq!((result.skips.len(), result.objection), (2, None));
        std::fs::write(log.path(), "a: in the words of old\n").expect("it can be written");
        assert!(SuiteResult::new("s", Some(five), true).with_noted_skips(log.path()).objection.is_some());
    }
}
