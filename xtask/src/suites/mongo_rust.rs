//! Application use of MongoDB's driver for Rust: `tests-sdk/mongo/rust`, a workspace of its own
//! with its own build directory.

use super::mongo::{ARGUMENTS, address};
use super::support::{Run, SuiteResult};
use crate::command::{run_and_listen, run_to_end};
use crate::{Outcome, project, tally};
use std::process::Command;

pub fn build() -> Outcome {
    run_to_end(cargo().args(["test", "--locked", "--no-run"]))
}

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    let server = run.start_server_with(ARGUMENTS)?;
    let mut test = cargo();
    test.args(["test", "--locked", "--", "--test-threads=1"]).env("SHARDLAKE_MONGO", address(&server)?);
    let (output, ended_well) = run_and_listen(&mut test)?;
    if !ended_well {
        println!("--- log of the server ---\n{}", server.log());
    }
    let result = SuiteResult::new("mongo-rust", tally::of_cargo_test(&output), ended_well);
    Ok(vec![result.with_log_of(&server)])
}

fn cargo() -> Command {
    let mut command = project::cargo();
    command
        .current_dir(project::root().join("tests-sdk/mongo/rust"))
        .env("CARGO_TARGET_DIR", project::work_directory().join("mongo-rust/target"));
    command
}
