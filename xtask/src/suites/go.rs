//! Our suite for the Go SDK, `tests-sdk/go`, once with the released SDK and once with the preview that reads change feeds.
//!
//! The modules are copied into the work directory, which also has their downloads and builds, so that the checkout stays
//! clean. Their sum files fix every download. Both runs use the same tests; the build tag `beta` adds those of the preview.

use super::support::{Run, SuiteResult, copied_afresh, with_endpoints};
use crate::command::run_and_listen;
use crate::tally::{self, Skip};
use crate::{Outcome, prerequisites, project};
use std::path::Path;
use std::process::Command;

const SUITES: [(&str, &[&str]); 2] =
    [("go/released", &[]), ("go/beta", &["-modfile=beta.mod", "-tags=beta"])];

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    if let Some(absent) = prerequisites::absent_go() {
        return Ok(SUITES.map(|(suite, _)| SuiteResult::not_installed(suite, absent)).into());
    }
    let work = project::work_directory().join("go");
    let sources = work.join("sources");
    copied_afresh(&project::root().join("tests-sdk/go"), &sources)?;
    // Two shards, so that partitions can be moved.
    let server = run.start_server_with(&["--shards=2"])?;
    let mut results = Vec::new();
    for (suite, arguments) in SUITES {
        let mut go = go_test(&work, &sources);
        go.args(arguments).arg("./...");
        with_endpoints(&mut go, &server)?;
        let (output, ended_well) = run_and_listen(&mut go)?;
        if !ended_well {
            println!("--- log of the server ---\n{}", server.log());
        }
        let skips: Vec<Skip> = tally::skips_of_go_test(&output);
        let result = SuiteResult::new(suite, tally::of_go_test(&output), ended_well);
        results.push(SuiteResult { skips, ..result }.with_log_of(&server));
    }
    Ok(results)
}

fn go_test(work: &Path, sources: &Path) -> Command {
    let mut go = Command::new("go");
    // The tests wait for the server for most of their time.
    go.args(["test", "-count=1", "-v", "-parallel=4", "-timeout=15m"])
        .current_dir(sources)
        .env("GOPATH", work.join("path"))
        .env("GOCACHE", work.join("cache"))
        .env("GOFLAGS", "-mod=readonly -modcacherw")
        .env("GOTOOLCHAIN", "local");
    go
}
