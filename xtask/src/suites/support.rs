//! Parts that the suites share: the server that they run against, their environment and their results.

use crate::tally::{Skip, Tally};
use crate::{Outcome, project};
use serde::{Deserialize, Serialize};
use shardlake_testkit::{ServerOptions, ServerProcess, shared_place};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// One line of the report. A suite may report several, each held to its own minimum.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SuiteResult {
    pub suite: String,
    pub tally: Tally,
    /// The skipped tests, as far as the runner lists them.
    pub skips: Vec<Skip>,
    /// A problem that the counts do not show.
    pub objection: Option<String>,
    /// The reason why the suite did not run: its language is not installed. No minimum holds then.
    pub absent: Option<String>,
}

impl SuiteResult {
    /// `ended_well` is the exit status of the runner, which must agree with the counts.
    pub(super) fn new(suite: &str, tally: Option<Tally>, ended_well: bool) -> SuiteResult {
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
            absent: None,
        }
    }

    /// A suite whose language is not installed here.
    pub(super) fn not_installed(suite: &str, reason: &str) -> SuiteResult {
        let result = SuiteResult::new(suite, Some(Tally::default()), true);
        SuiteResult { absent: Some(reason.to_owned()), ..result }
    }

    /// Fails a suite whose server logged a warning.
    pub(super) fn with_log_of(mut self, server: &ServerProcess) -> SuiteResult {
        let unexpected = server.take_unexpected_log();
        if !unexpected.is_empty() {
            self.objection = Some(format!("the server of {} warned:\n{}", self.suite, unexpected.join("\n")));
        }
        self
    }

    /// Tests that returned early for want of data passed in the eyes of their runner; here they count as skipped. A test
    /// counts once, however often it asked.
    pub(super) fn with_noted_skips(mut self, log: &Path) -> SuiteResult {
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

/// Where a suite notes its skips, while it runs.
#[derive(Debug)]
pub struct Run<'a> {
    /// The file in which tests note that they were skipped.
    pub skip_log: &'a Path,
}

/// Started so far by this process: two servers over one store have different prefixes.
static SERVERS: AtomicU32 = AtomicU32::new(0);

impl Run<'_> {
    /// A server for this suite alone, from the build that the workspace tests use. It refuses no request for its throughput:
    /// the suites ask for some to get partitions, and are not written for a server that throttles them.
    pub(super) fn start_server(&self) -> Outcome<ServerProcess> {
        self.start_server_with(&[])
    }

    /// As [`Self::start_server`], with more arguments.
    pub(super) fn start_server_with(&self, arguments: &[&str]) -> Outcome<ServerProcess> {
        self.start(ServerOptions::new(project::server_binary("debug")), arguments)
    }

    /// As [`Self::start_server_with`], without waits of writes for the disk: for thousands of small
    /// cases, none of which ends the server.
    pub(super) fn start_unsynced_server_with(&self, arguments: &[&str]) -> Outcome<ServerProcess> {
        self.start(ServerOptions::new(project::server_binary("debug")).durability("async"), arguments)
    }

    fn start(&self, options: ServerOptions, arguments: &[&str]) -> Outcome<ServerProcess> {
        // Suites show that clients do not trust an unknown authority.
        let options = options.argument("--throughput=unlimited").may_log("a client ended the TLS handshake");
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

/// Names of the server and its key in the environment of a suite.
pub(super) fn with_endpoints(command: &mut Command, server: &ServerProcess) -> Outcome {
    let ready = server.ready();
    let https = ready.https.clone().ok_or("the server offers no TLS endpoint")?;
    command
        .env("SHARDLAKE_HTTP", &ready.http)
        .env("SHARDLAKE_HTTPS", https.replace("127.0.0.1", "localhost"))
        .env("SHARDLAKE_KEY", &ready.key)
        .env("SHARDLAKE_CA_FILE", ready.fields["ca_file"].as_str().unwrap_or_default())
        .env("SHARDLAKE_BINARY", project::server_binary("debug"))
        .env("SHARDLAKE_DATA", shared_place("data").1)
        .env("SHARDLAKE_OWN_DATA", project::root().join("tests-sdk/data"))
        .env("SHARDLAKE_DOCS", project::root().join("docs"));
    Ok(())
}

/// Copies a directory with all below it. Files of an earlier run do not outlive their deletion in the checkout.
pub(super) fn copied_afresh(source: &Path, copy: &Path) -> Outcome {
    if copy.exists() {
        std::fs::remove_dir_all(copy)?;
    }
    std::fs::create_dir_all(copy)?;
    for entry in std::fs::read_dir(source)? {
        let entry = entry?;
        let place = copy.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copied_afresh(&entry.path(), &place)?;
        } else {
            std::fs::copy(entry.path(), place)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_died_is_noticed() {
        assert!(SuiteResult::new("a", None, true).objection.is_some());
        assert!(SuiteResult::new("a", Some(Tally::default()), false).objection.is_some());
        let failed = Tally { passed: 1, failed: 1, skipped: 0 };
        assert!(SuiteResult::new("a", Some(failed), false).objection.is_none(), "the count says it");
    }

    #[test]
    fn a_copy_holds_what_its_source_holds() {
        let scratch = tempfile::TempDir::new().expect("a temporary directory");
        let (source, copy) = (scratch.path().join("source"), scratch.path().join("copy"));
        std::fs::create_dir_all(source.join("a/b")).expect("made");
        std::fs::create_dir_all(copy.join("old")).expect("made");
        std::fs::write(source.join("a/b/c"), "text").expect("written");
        copied_afresh(&source, &copy).expect("it can be copied");
        assert_eq!(std::fs::read_to_string(copy.join("a/b/c")).expect("a file"), "text");
        assert!(!copy.join("old").exists());
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
