//! Our suite for the JavaScript SDK, `tests-sdk/js`, against one fresh server over both schemes.
//!
//! The suite is copied into the work directory and its packages are installed there from the committed lock file, so that
//! the checkout stays clean. Node's own runner reports in the Test Anything Protocol, whose closing lines are counted.

use super::support::{Run, SuiteResult, with_endpoints};
use crate::command::{run_and_listen, run_to_end};
use crate::{Outcome, prerequisites, project, tally};
use std::path::PathBuf;
use std::process::Command;

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_javascript()?;
    let directory = prepared_copy()?;
    let server = run.start_server()?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=tap", "--test-concurrency=1", "test/"]).current_dir(&directory);
    with_endpoints(&mut node, &server)?;
    let (output, ended_well) = run_and_listen(&mut node)?;
    show_log_if(&server, !ended_well);
    let skips = tally::skips_of_tap(&output);
    let result = SuiteResult::new("javascript", tally::of_tap(&output), ended_well);
    Ok(vec![SuiteResult { skips, ..result }.with_log_of(&server)])
}

fn prepared_copy() -> Outcome<PathBuf> {
    let source = project::root().join("tests-sdk/js");
    let copy = project::work_directory().join("js");
    std::fs::create_dir_all(copy.join("test"))?;
    let installed = copy.join("node_modules/.shardlake-lock");
    for file in ["package.json", "package-lock.json", "support.mjs"] {
        std::fs::copy(source.join(file), copy.join(file))?;
    }
    // Files of an earlier run must not outlive their deletion in the checkout.
    std::fs::remove_dir_all(copy.join("test"))?;
    std::fs::create_dir_all(copy.join("test"))?;
    for entry in std::fs::read_dir(source.join("test"))? {
        let entry = entry?;
        std::fs::copy(entry.path(), copy.join("test").join(entry.file_name()))?;
    }
    let wanted = std::fs::read(copy.join("package-lock.json"))?;
    if std::fs::read(&installed).is_ok_and(|found| found == wanted) {
        return Ok(copy);
    }
    run_to_end(
        Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&copy),
    )?;
    std::fs::write(installed, wanted)?;
    Ok(copy)
}

fn show_log_if(server: &shardlake_testkit::ServerProcess, failed: bool) {
    if failed {
        println!("--- log of the server ---\n{}", server.log());
    }
}
