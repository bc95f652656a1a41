//! `cargo xtask ci`, and the thin commands around other cargo tools.

use crate::build_time;
use crate::command::run_to_end;
use crate::project::FEATURES;
use crate::schedule::Check;
use crate::{Outcome, prerequisites, project, test};
use std::process::Command;

/// Formatting first, so that a mistake there is reported within seconds. Lints run after the
/// builds, concurrently with the suites.
pub fn ci() -> Outcome {
    prerequisites::for_building()?;
    run_to_end(&mut cargo(&["fmt", "--all", "--check"]))?;
    let tests = test::test_and_check(&test::Options::default(), CHECKS);
    // Last, since it needs the processors for itself.
    let build = build_time::build_time(&build_time::Options::when_changed());
    tests.and(build)
}

const CHECKS: &[Check] = &[
    Check {
        name: "clippy",
        run: || {
            let mut clippy = cargo(&["clippy", "--locked", "--workspace", "--all-targets"]);
            run_to_end(clippy.args(FEATURES).args(["--", "-D", "warnings"]))
        },
    },
    // A newcomer's build names no feature. Clippy again, since it has looked through most crates already.
    Check {
        name: "clippy without features",
        run: || {
            let mut clippy = cargo(&["clippy", "--locked", "--package", "shardlake"]);
            run_to_end(clippy.args(["--", "-D", "warnings"]))
        },
    },
];

/// `cargo xtask fuzz TARGET [arguments of cargo fuzz run]`.
pub fn fuzz(arguments: &[String]) -> Outcome {
    if !project::root().join("fuzz").is_dir() {
        return Err("there are no fuzz targets in this checkout".into());
    }
    let action = if arguments.is_empty() { "list" } else { "run" };
    // The toolchain is chosen by rustup's shim; the CARGO variable names the pinned one.
    run_to_end(
        Command::new("cargo").args(["+nightly", "fuzz", action]).args(arguments).current_dir(project::root()),
    )
}

/// The tests that read the shared conformance data carry its name.
pub fn conform(arguments: &[String]) -> Outcome {
    let (variable, directory) = shardlake_testkit::shared_place("conformance");
    if !directory.is_dir() {
        return Err(format!("{} is not there; set {variable}", directory.display()).into());
    }
    let filters = if arguments.is_empty() { vec!["vectors".to_owned()] } else { arguments.to_vec() };
    run_to_end(cargo(&["test", "--locked", "--workspace", "--"]).args(filters))
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = project::cargo();
    command.args(arguments).current_dir(project::root());
    command
}
