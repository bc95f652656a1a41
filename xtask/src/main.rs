//! Developer commands: `cargo xtask run | tour | test | ci | dist | bench | campaign | fuzz | conform | explorer`.
//!
//! Everything a developer or the continuous integration does to this repository goes through here, so that both do the
//! same. `run` builds and starts the server with demo data, `tour` one with a hot partition; `test` runs every test of the project, the
//! suites of the official SDKs included; `ci` adds formatting and lints. Downloads (Python and JavaScript packages)
//! live in a work directory outside the repository. Nothing here is compiled into the product.
#![allow(clippy::disallowed_methods)] // commands read the environment and the clock
#![allow(clippy::print_stdout, clippy::print_stderr)] // their output is their purpose

mod bench;
mod build_time;
mod campaign;
#[cfg(test)]
mod checks;
mod ci;
mod command;
mod dist;
mod explorer;
mod minimums;
mod prerequisites;
mod processor_time;
mod project;
mod run;
mod schedule;
mod suites;
mod tally;
mod test;

use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Developer commands of Shardlake")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the server and start it with the demo data; further arguments go to `shardlake serve`
    Run(PassedOn),
    /// See a hot partition made, explained and cured: a guided tour in the browser; further arguments go to `shardlake demo hot-tenant`
    Tour(PassedOn),
    /// Run every test: workspace, SDK suites, kill -9 harness
    Test(test::Options),
    /// Run one suite in this process, as `test` does
    #[command(hide = true)]
    Suite(schedule::SuiteOptions),
    /// Formatting, lints and `test`: exactly what continuous integration runs
    Ci,
    /// Measure a clean build of the server against its recorded processor time
    BuildTime(build_time::Options),
    /// Make the artefacts of a release: archive, packages, image, sums, bill of materials
    Dist(dist::Options),
    /// Measure; `point` compares point reads and durable writes with an ideal handler and PostgreSQL
    Bench(bench::Options),
    /// Long runs that look for rare faults: kill -9 and start, thousands of times
    Campaign(campaign::Options),
    /// Run a fuzz target with cargo-fuzz; without a name, list them
    Fuzz(PassedOn),
    /// Work on the explorer: build its `dist`, take pictures of its pages
    Explorer(explorer::Options),
    /// Run the tests that read the shared conformance data; arguments filter by name
    Conform(PassedOn),
}

#[derive(Debug, Args)]
struct PassedOn {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// What a command reports when it did not do what it was asked.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(rest) => run::run(&rest.arguments),
        Command::Tour(rest) => run::tour(&rest.arguments),
        Command::Test(options) => test::test(&options),
        Command::Suite(options) => schedule::run_suite(&options),
        Command::Ci => ci::ci(),
        Command::BuildTime(options) => build_time::build_time(&options),
        Command::Dist(options) => dist::dist(&options),
        Command::Bench(options) => bench::bench(&options),
        Command::Campaign(options) => campaign::campaign(&options),
        Command::Fuzz(rest) => ci::fuzz(&rest.arguments),
        Command::Explorer(options) => explorer::explorer(&options),
        Command::Conform(rest) => ci::conform(&rest.arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
