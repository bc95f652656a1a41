//! Tests of the storage engine built from `vendor`: its own, and ours of our changes there.
//!
//! That directory is a workspace of its own, because its tests need crates that nothing else needs.

use super::support::{Run, SuiteResult};
use crate::command::{run_and_listen, run_to_end};
use crate::{Outcome, project, tally};
use std::process::Command;

pub fn build() -> Outcome {
    run_to_end(cargo("fjall").arg("--no-run"))?;
    run_to_end(cargo("lsm-tree").arg("--no-run"))
}

pub fn run(_run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    ["fjall", "lsm-tree"].into_iter().map(tests_of).collect()
}

fn tests_of(package: &str) -> Outcome<SuiteResult> {
    let (output, ended_well) = run_and_listen(&mut cargo(package))?;
    Ok(SuiteResult::new(&format!("engine/{package}"), tally::of_cargo_test(&output), ended_well))
}

/// With the features that the program has.
fn cargo(package: &str) -> Command {
    let mut command = project::cargo();
    command
        .args(["test", "--locked", "--lib", "--package", package, "--features", "bytes_1,lz4"])
        .current_dir(project::root().join("vendor"))
        .env("CARGO_TARGET_DIR", project::work_directory().join("engine/target"));
    command
}
