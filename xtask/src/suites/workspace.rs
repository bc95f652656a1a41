//! The tests of the cargo workspace, and the kill -9 harness at its full length.
//!
//! The harness is left out of the first suite, so that it runs once. There is no suite of doc tests: a tidy test keeps
//! examples that nothing runs out of the comments.

use super::programs::{self, Program, Selection};
use super::support::{Run, SuiteResult};
use crate::Outcome;
use crate::command::run_and_listen;
use crate::tally::Tally;
use std::process::Command;

/// Runs of the harness, which share its requested cycles.
pub const HARNESS_RUNS: u64 = 5;
/// Cycles of all runs of the harness together.
const KILL_CYCLES: u64 = 10 * HARNESS_RUNS;
/// Concurrent test programs: each has as many threads as there are processors, and another suite runs at the same time.
const PROGRAMS_AT_ONCE: usize = 1;

pub fn build() -> Outcome {
    programs::build(Selection::All)
}

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    let mut programs = programs::programs()?;
    programs.retain(|program| program.target != "durability");
    programs.sort_by_key(longest_first);
    let tally = programs::run_all(programs, PROGRAMS_AT_ONCE, |command| {
        command.env("SHARDLAKE_SKIP_LOG", run.skip_log);
    });
    let ended_well = tally.failed == 0;
    Ok(vec![SuiteResult::new("workspace", Some(tally), ended_well).with_noted_skips(run.skip_log)])
}

/// Tests of the engine and of its protocols, with every command to a partition and every reply encoded and decoded, as
/// between nodes. Left out are tests of direct calls alone: the counts of the work of a request, the waits that statements
/// of one command share, and the end of a write by a command of another client.
pub fn run_loopback(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    let mut programs = programs::programs()?;
    let is_one = |program: &Program| {
        let packages = [
            "account",
            "gateway-nosql",
            "gateway-mongo",
            "host",
            "items",
            "procedures",
            "projections",
            "queries",
        ];
        program.target == "it" && packages.contains(&program.package.as_str())
    };
    programs.retain(is_one);
    let tally = programs::run_all(programs, PROGRAMS_AT_ONCE, |command| {
        command.env("SHARDLAKE_SKIP_LOG", run.skip_log).env("SHARDLAKE_TEST_REACH", "loopback");
        for left_out in ["counts::", "statements_of_a_command_wait", "writes_whose_expressions_take_long"] {
            command.args(["--skip", left_out]);
        }
    });
    let ended_well = tally.failed == 0;
    Ok(vec![SuiteResult::new("loopback", Some(tally), ended_well).with_noted_skips(run.skip_log)])
}

/// Integration tests take longest; a long program that begins last runs alone.
fn longest_first(program: &Program) -> (u8, String) {
    let rank = match (program.package.as_str(), program.target.as_str()) {
        ("account" | "server", "it") => 0,
        (_, "it") => 1,
        _ => 2,
    };
    (rank, program.package.clone())
}

/// Builds the harness, and with it the server.
pub fn build_harness() -> Outcome {
    programs::build(Selection::Harness)
}

/// Counts cycles, not test functions: a harness that stopped killing would still be one passing test.
pub fn run_durability(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    let mut command = harness()?;
    command.arg("--nocapture").env("SHARDLAKE_SKIP_LOG", run.skip_log);
    command.env("SHARDLAKE_KILL_CYCLES", KILL_CYCLES.to_string());
    let (output, ended_well) = run_and_listen(&mut command)?;
    Ok(vec![of_cycles("durability", &output, ended_well)])
}

/// The kill -9 harness, as a command that may get further arguments.
pub fn harness() -> Outcome<Command> {
    Ok(programs::harness()?.command())
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

#[cfg(test)]
mod tests {
    use super::cycles_passed;

    #[test]
    fn cycles_count_wherever_the_runner_writes_its_own_lines() {
        let output = "running 2 tests\ncycle 1 ok: 9 commits\ntest a::b ... cycle 2 ok: 8 commits\nok\ncycle 3 of seed 7 broke promises\n";
        assert_eq!(cycles_passed(output), 2);
    }
}
