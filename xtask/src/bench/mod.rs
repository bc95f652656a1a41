//! `cargo xtask bench NAME`: measurements of the release build, made by the `bench` package. `cargo xtask bench compare
//! REVISION` measures it beside that revision's (`compare.rs`).
//!
//! That package has dependencies of its own (an HTTP server as a yardstick), which someone who only wants to run the server
//! should not have to build; so it is a program that this command builds and starts.

mod compare;

use std::process::Command;

use crate::{Outcome, command, prerequisites, project};
use clap::Args;

#[derive(Debug, Args)]
pub struct Options {
    /// Which benchmark to run: `point`, `query`, `partitions`, `throttle`, `metering`, `feed`, `script`, `ttl`, `heavy`, or `compare REVISION`
    name: String,
    /// Arguments of that benchmark; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn bench(options: &Options) -> Outcome {
    prerequisites::for_building()?;
    let mut build = Command::new(project::cargo());
    build.args(["build", "--release", "--locked", "--package", "shardlake", "--package", "shardlake-bench"]);
    command::run_to_end(build.current_dir(project::root()))?;
    let program = project::target_directory().join("release").join("shardlake-bench");
    let mut bench = Command::new(program);
    bench.arg(&options.name).arg("--server").arg(project::server_binary("release"));
    let mut arguments = options.arguments.as_slice();
    if options.name == "compare" {
        let (revision, rest) = arguments.split_first().ok_or("compare with which revision?")?;
        bench.arg("--base").arg(compare::build(revision)?);
        arguments = rest;
    }
    command::run_to_end(bench.args(arguments).current_dir(project::root()))
}
