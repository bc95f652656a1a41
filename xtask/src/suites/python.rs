//! The tests that the Python SDK ships, and our own suite for it.
//!
//! `tests-sdk/python/run.py` installs the pinned SDK into a virtual environment of the work directory, runs the chosen files and
//! writes the counts per file as JSON; this module gives it a server and reads the counts. `cargo xtask test python` runs the SDK's
//! files only, `python-own` ours only.

use super::support::{Run, SuiteResult};
use crate::command::run_and_listen;
use crate::tally::{Skip, Tally};
use crate::{Outcome, prerequisites, project};
use serde::Deserialize;
use shardlake_testkit::shared_place;
use std::process::Command;

#[derive(Debug, Deserialize)]
struct Counts {
    file: String,
    passed: u64,
    failed: u64,
    skipped: u64,
    skips: Vec<Skip>,
}

pub fn run_sdk_tests(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    run_files("sdk", run)
}

pub fn run_own(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    run_files("own", run)
}

fn run_files(which: &str, run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_python()?;
    let server = run.start_server()?;
    let ready = server.ready();
    let https = ready.https.clone().ok_or("the server offers no TLS endpoint")?;
    let results = server.scratch().join("python.json");
    let mut python = Command::new("python3");
    python
        .arg(project::root().join("tests-sdk/python/run.py"))
        .arg(which)
        .arg("--work")
        .arg(project::work_directory().join("python"))
        .arg("--results")
        .arg(&results)
        .env("SHARDLAKE_HTTP", &ready.http)
        .env("SHARDLAKE_HTTPS", https.replace("127.0.0.1", "localhost"))
        .env("SHARDLAKE_KEY", &ready.key)
        .env("SHARDLAKE_CA_FILE", ready.fields["ca_file"].as_str().unwrap_or_default())
        .env("SHARDLAKE_DATA", shared_place("data").1)
        .env("SHARDLAKE_OWN_DATA", project::root().join("tests-sdk/data"))
        .env("SHARDLAKE_ROOT", project::root())
        .env("DEMO_BINARY", project::server_binary("debug"));
    let (_, ended_well) = run_and_listen(&mut python)?;
    if !ended_well {
        println!("--- log of the server ---\n{}", server.log());
    }
    let text =
        std::fs::read_to_string(&results).map_err(|error| format!("the runner left no counts: {error}"))?;
    let counts: Vec<Counts> = serde_json::from_str(&text)?;
    let row = |counts: Counts| {
        let tally = Tally { passed: counts.passed, failed: counts.failed, skipped: counts.skipped };
        let suite = format!("python/{}", counts.file);
        SuiteResult { skips: counts.skips, ..SuiteResult::new(&suite, Some(tally), counts.failed == 0) }
    };
    let mut rows: Vec<SuiteResult> = counts.into_iter().map(row).collect();
    // The server is the same for all files; its log is reported with the last one.
    if let Some(last) = rows.pop() {
        rows.push(last.with_log_of(&server));
    }
    Ok(rows)
}
