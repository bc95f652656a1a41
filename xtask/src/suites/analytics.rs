//! Analytical tables in the engines that users read them with.
//!
//! `tests-sdk/analytics/snippets.py` runs the programs of `docs/analytics.md` against tables of a
//! live server. `live.py` compares rows, counts and filters of tables with a scan while containers change,
//! with three seeds here and with more by hand (docs/testing.md). An example program writes more tables: `tests-sdk/analytics/readers.py` compares
//! every row that DuckDB, Polars and delta-rs read, and has delta-rs try to write. Spark reads the
//! latter by hand: `readers.py FOLDER --reader spark`.

use super::mongo::python_with;
use super::support::{Run, SuiteResult, with_endpoints};
use crate::command::{run_and_listen, run_to_end};
use crate::{Outcome, prerequisites, project, tally};
use shardlake_testkit::EMULATOR_KEY;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Containers of random changes.
const LIVE_SEEDS: &str = "3";
/// Of the programs that ask the server for rows.
const READ_KEY: &str = "cmVhZC1vbmx5LWtleS1vZi10aGUtc25pcHBldHM=";
/// Random tables besides the written ones.
const SEEDS: &str = "12";

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_python()?;
    let python = python_with("analytics-python", "tests-sdk/analytics/requirements.txt")?;
    Ok(vec![run_readers(&python)?, run_snippets(run, &python)?, run_live(run, &python)?])
}

fn run_readers(python: &Path) -> Outcome<SuiteResult> {
    // The build of all tests makes examples as tests alone.
    let mut build = project::cargo();
    build.args(["build", "--locked", "--package", "shardlake-analytical-table", "--example", "write_tables"]);
    run_to_end(build.current_dir(project::root()))?;
    let folder = tempfile::TempDir::with_prefix("shardlake-tables-")?;
    let program = project::target_directory().join("debug/examples/write_tables");
    run_to_end(Command::new(&program).arg(folder.path()).arg(SEEDS))?;
    let mut readers = Command::new(python);
    readers.arg(project::root().join("tests-sdk/analytics/readers.py")).arg(folder.path());
    readers.args(["--refuse-writes", "--checkpoint"]);
    let (output, ended_well) = run_and_listen(&mut readers)?;
    // The tables open with all rows after others read them, checkpointed them and tried to write.
    run_to_end(Command::new(&program).arg(folder.path()).arg("check"))?;
    Ok(SuiteResult::new("analytics", tally::of_tap(&output), ended_well))
}

fn run_snippets(run: &Run<'_>, python: &Path) -> Outcome<SuiteResult> {
    let folder = tempfile::TempDir::with_prefix("shardlake-keys-")?;
    let keys = key_file(folder.path())?;
    let server = run.start_server_with(&[&format!("--key-file={}", keys.display())])?;
    let mut snippets = Command::new(python);
    snippets.arg(project::root().join("tests-sdk/analytics/snippets.py"));
    with_endpoints(&mut snippets, &server)?;
    snippets.env("SHARDLAKE_READ_KEY", READ_KEY);
    let (output, ended_well) = run_and_listen(&mut snippets)?;
    let skips = tally::skips_of_tap(&output);
    let result = SuiteResult::new("analytics-snippets", tally::of_tap(&output), ended_well);
    Ok(SuiteResult { skips, ..result }.with_log_of(&server))
}

/// A file with the emulators' key, and a key that only reads.
fn key_file(folder: &Path) -> Outcome<PathBuf> {
    let path = folder.join("keys.json");
    let text = serde_json::json!({ "primary": EMULATOR_KEY, "primaryReadonly": READ_KEY }).to_string();
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes())?;
    Ok(path)
}

fn run_live(run: &Run<'_>, python: &Path) -> Outcome<SuiteResult> {
    let server = run.start_unsynced_server_with(&[])?;
    let mut live = Command::new(python);
    live.arg(project::root().join("tests-sdk/analytics/live.py")).args(["--seeds", LIVE_SEEDS]);
    with_endpoints(&mut live, &server)?;
    let (output, ended_well) = run_and_listen(&mut live)?;
    Ok(SuiteResult::new("analytics-live", tally::of_tap(&output), ended_well).with_log_of(&server))
}
