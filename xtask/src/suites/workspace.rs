//! The tests of the cargo workspace, its doc tests, and the kill -9 harness at its full length.
//!
//! `cargo nextest` runs them where it is installed, because it runs test programs side by side; `cargo test` runs the same
//! tests elsewhere. All three build the same packages together, so that no crate is compiled twice with other features.

use super::SuiteResult;
use crate::command::{run_and_listen, run_to_end, succeeds};
use crate::tally::{self, Tally};
use crate::{Outcome, project};
use std::path::Path;
use std::process::Command;

const KILL_CYCLES: u64 = 20;

pub fn run(skip_log: &Path) -> Outcome<Vec<SuiteResult>> {
    let by_nextest = succeeds("cargo", &["nextest", "--version"]);
    let mut command = cargo(skip_log);
    if by_nextest {
        command.args([
            "nextest",
            "run",
            "--locked",
            "--workspace",
            "--no-fail-fast",
            "--status-level",
            "slow",
        ]);
    } else {
        command.args(["test", "--locked", "--workspace", "--all-targets", "--no-fail-fast"]);
    }
    let (output, ended_well) = run_and_listen(&mut command)?;
    let tally = if by_nextest { tally::of_nextest(&output) } else { tally::of_cargo_test(&output) };
    Ok(vec![SuiteResult::new("workspace", tally, ended_well)])
}

pub fn run_doc_tests(skip_log: &Path) -> Outcome<Vec<SuiteResult>> {
    let (output, ended_well) =
        run_and_listen(cargo(skip_log).args(["test", "--locked", "--workspace", "--doc"]))?;
    Ok(vec![SuiteResult::new("doc", tally::of_cargo_test(&output), ended_well)])
}

/// Counts cycles, not test functions: a harness that stopped killing would still be one passing test.
pub fn run_durability(skip_log: &Path) -> Outcome<Vec<SuiteResult>> {
    let mut command = cargo(skip_log);
    command
        .args(["test", "--locked", "--workspace", "--test", "durability", "--", "--nocapture"])
        .env("SHARDLAKE_KILL_CYCLES", KILL_CYCLES.to_string());
    let (output, ended_well) = run_and_listen(&mut command)?;
    let is_cycle = |line: &&str| line.starts_with("cycle ") && line.contains(" ok: ");
    let passed = output.lines().filter(is_cycle).count() as u64;
    let failed = u64::from(!ended_well);
    Ok(vec![SuiteResult::new("durability", Some(Tally { passed, failed, skipped: 0 }), ended_well)])
}

/// Builds what the SDK suites talk to, with the features the workspace tests use.
pub fn build_server() -> Outcome {
    let mut command = Command::new(project::cargo());
    command
        .args(["build", "--locked", "--workspace", "--exclude", "xtask", "--bins"])
        .current_dir(project::root());
    run_to_end(&mut command)
}

fn cargo(skip_log: &Path) -> Command {
    let mut command = Command::new(project::cargo());
    command.current_dir(project::root()).env("SHARDLAKE_SKIP_LOG", skip_log);
    command
}
