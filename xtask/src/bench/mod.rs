//! `cargo xtask bench NAME`: measurements of an optimised build, made by the `bench` package.
//! `compare REVISION`, `guard` and `all` compare it with the build of a revision, or with an
//! existing program (`base.rs`).
//!
//! That package has dependencies of its own (an HTTP server for comparison), which a user who only wants to
//! run the server should not have to build; so it is a program that this command builds and starts.

mod base;
mod counts;

use std::process::Command;

use crate::{Outcome, command, prerequisites, project};
use clap::Args;

#[derive(Debug, Args)]
pub struct Options {
    /// Cargo's profile of both builds [default: quick for `guard`, release otherwise]
    #[arg(long)]
    profile: Option<String>,
    /// Which benchmark to run: `point`, `query`, `partitions`, `throttle`, `metering`, `feed`, `mongo`, `script`, `ttl`, `analytics`, `copies`, `heavy`, `hostile`, `store`, `profile`, `compare REVISION`, `guard [REVISION]`, `all [REVISION]`
    name: String,
    /// Arguments of that benchmark; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn bench(options: &Options) -> Outcome {
    prerequisites::for_building()?;
    let profile = match (&options.profile, options.name.as_str()) {
        (Some(profile), _) => profile,
        (None, "guard") => "quick",
        (None, _) => "release",
    };
    let mut build = project::cargo();
    build.args(["build", "--profile", profile, "--locked"]);
    build.args(["--package", "shardlake", "--package", "shardlake-bench"]);
    match options.name.as_str() {
        "store" => _ = build.args(["--features", "shardlake/object-storage"]),
        "hostile" if options.arguments.iter().any(|argument| argument == "--sql") => {
            _ = build.args(["--features", "shardlake/full"]);
        }
        "analytics" => _ = build.args(["--features", "shardlake/analytics"]),
        _ => {}
    }
    command::run_to_end(build.current_dir(project::root()))?;
    let mut arguments = options.arguments.clone();
    let base = base::take(&options.name, &mut arguments)?;
    let mut bench = Command::new(project::target_directory().join(profile).join("shardlake-bench"));
    bench.arg(&options.name).arg("--server").arg(project::server_binary(profile));
    let revision = base.as_ref().and_then(|base| base.revision().map(str::to_owned));
    if let Some(base) = base {
        bench.arg("--base").arg(base.program(profile)?);
    }
    let measured = command::run_to_end(bench.args(arguments).current_dir(project::root()));
    if options.name == "guard" {
        counts::print(revision.as_deref())?;
    }
    measured
}
