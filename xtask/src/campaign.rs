//! `cargo xtask campaign TARGET`: long runs that look for faults too rare for the tests.
//!
//! A campaign repeats one thing until a number of cycles, or a time, is reached. It ends at the
//! first fault, names the seed of the run, and keeps the evidence; `tests` continues and keeps a
//! log. A new target is a variant of [`Target`] and a module with its `run`.

mod repeats;
mod run;
mod starts;

use crate::command::run_to_end;
use crate::{Outcome, prerequisites, project};
use clap::{Args, ValueEnum};
use run::Campaign;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Optimised without LTO: a build takes minutes, and rare orders of events come about as in a release.
const PROFILE: &str = "quick";

#[derive(Debug, Args)]
pub struct Options {
    /// Target to repeat
    #[arg(value_enum)]
    target: Target,
    /// End after so many cycles
    #[arg(long)]
    cycles: Option<u64>,
    /// End after so many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Repeat the choices of an earlier run, though not its timing
    #[arg(long)]
    seed: Option<u64>,
    /// A server that is built already; without it, one is built
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Of `tests`: only programs whose PACKAGE/TARGET contains this, such as `cluster/lib`; may be repeated
    #[arg(long)]
    program: Vec<String>,
    /// Of `tests`: only tests whose names contain this
    #[arg(long)]
    test: Option<String>,
    /// Where evidence of a fault is kept [default: the work directory]
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// kill -9 under writes, relocations and a backup, and a start; again and again
    Starts,
    /// Test programs under changing load, 20 times each or `--cycles` times, to find tests that pass by luck
    Tests,
}

pub fn campaign(options: &Options) -> Outcome {
    if options.target == Target::Tests {
        prerequisites::for_building()?;
        return repeats::run(options.cycles, &options.program, options.test.as_deref());
    }
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => built()?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = options.seed.unwrap_or(now.as_secs());
    let evidence = options.evidence.clone().unwrap_or_else(|| project::work_directory().join("campaign"));
    // Without any bound: until a fault.
    let campaign = Campaign {
        binary,
        evidence,
        seed,
        cycles: options.cycles.unwrap_or(u64::MAX),
        time: options.minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(60 * minutes)),
        began: Instant::now(),
    };
    println!("campaign {:?}, seed {seed}, server {}", options.target, campaign.binary.display());
    let outcome = match options.target {
        Target::Starts => starts::run(&campaign),
        Target::Tests => unreachable!("it needs no server"),
    };
    outcome.map_err(|error| format!("campaign {:?}, seed {seed}: {error}", options.target).into())
}

fn built() -> Outcome<PathBuf> {
    prerequisites::for_building()?;
    let mut build = project::cargo();
    build.args(["build", "--profile", PROFILE, "--locked", "--package", "shardlake"]);
    build.current_dir(project::root());
    run_to_end(&mut build)?;
    Ok(project::server_binary(PROFILE))
}
