//! The tests of the cargo workspace, and the kill -9 harness at its full length.
//!
//! `cargo nextest` runs them where it is installed, because it runs test programs side by side; `cargo test` runs the same
//! tests elsewhere. All build the same packages together, so that no crate is compiled twice with other features. The harness is
//! left out of the first suite, so that it runs once. There is no suite of doc tests: a tidy test keeps examples that
//! nothing runs out of the comments.

use super::{Run, SuiteResult};
use crate::command::{run_and_listen, succeeds};
use crate::tally::{self, Tally};
use crate::{Outcome, project};
use std::process::Command;

/// What release artefacts have; one set in all builds here, so that each crate is compiled once.
pub const FEATURES: [&str; 2] = ["--features", "shardlake/full"];
/// They share the cycles that the harness is asked for.
pub const HARNESS_RUNS: u64 = 5;
/// Of all runs of the harness together.
const KILL_CYCLES: u64 = 10 * HARNESS_RUNS;

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    // All test programs, the harness included: what is built together is built once.
    run.build(cargo_of_all(run, &["test"]).args(["--locked", "--workspace", "--all-targets", "--no-run"]))?;
    let by_nextest = succeeds("cargo", &["nextest", "--version"]);
    let mut command = if by_nextest {
        let mut command = cargo_of_all(run, &["nextest", "run"]);
        command.args(["--all-targets", "--status-level", "slow", "--filterset", "not binary(=durability)"]);
        command
    } else {
        let mut command = cargo_of_all(run, &["test"]);
        command.args(["--lib", "--bins", "--test", "it"]);
        command
    };
    command.args(["--locked", "--workspace", "--no-fail-fast"]);
    let (output, ended_well) = run_and_listen(&mut command)?;
    let tally = if by_nextest { tally::of_nextest(&output) } else { tally::of_cargo_test(&output) };
    // The filter leaves the harness out; nextest counts that as skipped.
    let tally = tally.map(|tally| Tally { skipped: 0, ..tally });
    Ok(vec![SuiteResult::new("workspace", tally, ended_well).with_noted_skips(run.skip_log)])
}

/// Counts cycles, not test functions: a harness that stopped killing would still be one passing test.
pub fn run_durability(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    run.build(harness().arg("--no-run"))?;
    let mut command = harness();
    command.args(["--", "--nocapture"]).env("SHARDLAKE_SKIP_LOG", run.skip_log);
    command.env("SHARDLAKE_KILL_CYCLES", KILL_CYCLES.to_string());
    let (output, ended_well) = run_and_listen(&mut command)?;
    Ok(vec![of_cycles("durability", &output, ended_well)])
}

/// The kill -9 harness, as a command that may get further arguments.
pub fn harness() -> Command {
    let mut command = project::cargo();
    command.args(["test", "--locked", "--workspace"]).args(FEATURES).args(["--test", "durability"]);
    command
}

pub fn of_cycles(suite: &str, output: &str, ended_well: bool) -> SuiteResult {
    let (passed, failed) = (cycles_passed(output), u64::from(!ended_well));
    SuiteResult::new(suite, Some(Tally { passed, failed, skipped: 0 }), ended_well)
}

/// The cycles that kept every promise. Tests run at once, so the line of a cycle may follow `test NAME ... `, which the test
/// runner writes without an end of line.
fn cycles_passed(output: &str) -> u64 {
    let ends_well = |line: &str| line.split_once("cycle ").is_some_and(|(_, cycle)| cycle.contains(" ok: "));
    output.lines().filter(|line| ends_well(line)).count() as u64
}

/// Builds what the SDK suites talk to, with the features the workspace tests use.
pub fn server_build() -> Command {
    let mut command = project::cargo();
    command
        .args(["build", "--locked", "--workspace", "--exclude", "xtask", "--bins"])
        .args(FEATURES)
        .current_dir(project::root());
    command
}

fn cargo(run: &Run<'_>) -> Command {
    let mut command = project::cargo();
    command.current_dir(project::root()).env("SHARDLAKE_SKIP_LOG", run.skip_log);
    command
}

/// Cargo with a subcommand, for every feature: what the default build leaves out is tested, too.
fn cargo_of_all(run: &Run<'_>, subcommand: &[&str]) -> Command {
    let mut command = cargo(run);
    command.args(subcommand).args(FEATURES);
    command
}

#[cfg(test)]
mod tests {
    use super::cycles_passed;

    #[test]
    fn cycles_count_wherever_the_runner_writes_its_own_lines() {
        let output = "running 2 tests\ncycle 1 ok: 9 commits\ntest a::b ... cycle 2 ok: 8 commits\nok\ncycle 3 of seed 7 broke promises\n";
        assert_eq!(cycles_passed(output), 2);
    }
}
