//! The explorer's own suites: its sources and its `dist`, and its pages in a real browser.
//!
//! `explorer` runs in the checkout, because `dist` there is compared with the build of the sources.
//! Its packages are installed from the committed lock file. `explorer-browser` starts servers of
//! its own from the build that the workspace tests use, and drives them with the system's Chromium;
//! its only download is that package.

use super::support::{Run, SuiteResult};
use crate::command::{run_and_listen, run_to_end};
use crate::{Outcome, prerequisites, project, tally};
use std::path::PathBuf;
use std::process::Command;

/// Types, unit tests, house rules, the budget of sizes, and whether `dist` is the build of the sources.
pub fn run_sources(_run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    let directory = installed()?;
    run_to_end(Command::new("npm").args(["run", "types"]).current_dir(&directory))?;
    let mut vitest = Command::new("node");
    vitest
        .args(["node_modules/vitest/vitest.mjs", "run", "--reporter=./test/tally.mjs"])
        .current_dir(&directory);
    let (output, ended_well) = run_and_listen(&mut vitest)?;
    run_to_end(Command::new("node").arg("test/reproduce.mjs").current_dir(&directory))?;
    Ok(vec![SuiteResult::new("explorer", tally::of_tap(&output), ended_well)])
}

/// The written scenarios, against the real server.
pub fn run_browser(_run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    prerequisites::for_browser()?;
    let directory = installed()?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=tap", "--test-concurrency=1", "test/e2e/"])
        .current_dir(&directory)
        .env("SHARDLAKE_BINARY", project::server_binary("debug"));
    let (output, ended_well) = run_and_listen(&mut node)?;
    let skips = tally::skips_of_tap(&output);
    let result = SuiteResult::new("explorer-browser", tally::of_tap(&output), ended_well);
    Ok(vec![SuiteResult { skips, ..result }])
}

/// The folder, with its packages: installed again when the lock file has changed.
pub fn installed() -> Outcome<PathBuf> {
    prerequisites::for_javascript()?;
    let directory = project::root().join("explorer");
    let mark = directory.join("node_modules/.shardlake-lock");
    let wanted = std::fs::read(directory.join("package-lock.json"))?;
    if !std::fs::read(&mark).is_ok_and(|found| found == wanted) {
        let arguments = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
        run_to_end(Command::new("npm").args(arguments).current_dir(&directory))?;
        std::fs::write(mark, wanted)?;
    }
    Ok(directory)
}
