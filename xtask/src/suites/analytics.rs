//! Analytical tables, written by an example program, in the engines that users read them with.
//!
//! `tests-sdk/analytics/readers.py` compares every row that DuckDB, Polars and delta-rs read, and has
//! delta-rs try to write. Spark is run by hand: `readers.py FOLDER --reader spark`.

use super::mongo::python_with;
use super::support::{Run, SuiteResult};
use crate::command::{run_and_listen, run_to_end};
use crate::{Outcome, prerequisites, project, tally};
use std::process::Command;

/// Random tables besides the written ones.
const SEEDS: &str = "12";

pub fn run(_run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_python()?;
    let python = python_with("analytics-python", "tests-sdk/analytics/requirements.txt")?;
    let folder = tempfile::TempDir::with_prefix("shardlake-tables-")?;
    let program = project::target_directory().join("debug/examples/write_tables");
    run_to_end(Command::new(&program).arg(folder.path()).arg(SEEDS))?;
    let mut readers = Command::new(python);
    readers.arg(project::root().join("tests-sdk/analytics/readers.py")).arg(folder.path());
    readers.args(["--refuse-writes", "--checkpoint"]);
    let (output, ended_well) = run_and_listen(&mut readers)?;
    // The tables open with all rows after others read them, checkpointed them and tried to write.
    run_to_end(Command::new(&program).arg(folder.path()).arg("check"))?;
    Ok(vec![SuiteResult::new("analytics", tally::of_tap(&output), ended_well)])
}
