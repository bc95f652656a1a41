//! `cargo xtask campaign TARGET`: long runs that look for faults too rare for the tests.
//!
//! A campaign repeats one thing until a number of cycles, or a time, is reached. It ends at the
//! first fault, names the seed of the run, and keeps the evidence; `tests` continues and keeps a
//! log. A new target is a variant of [`Target`] and a module with its `run`.

mod repeats;
mod starts;

use crate::command::run_to_end;
use crate::{Outcome, prerequisites, project};
use clap::{Args, ValueEnum};
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

/// Length of a campaign, and its seed.
pub struct Campaign {
    pub binary: PathBuf,
    pub evidence: PathBuf,
    pub seed: u64,
    cycles: u64,
    time: Duration,
    began: Instant,
}

impl Campaign {
    /// Whether another cycle follows after `done` cycles.
    pub fn goes_on(&self, done: u64) -> bool {
        done < self.cycles && self.began.elapsed() < self.time
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
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

/// Numbers that a seed decides.
pub struct Choices(u64);

impl Choices {
    pub fn of(seed: u64) -> Choices {
        Choices(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

#[cfg(test)]
mod own_tests {
    use super::*;

    #[test]
    fn seed_decides_all_choices() {
        let first = |seed| {
            let mut choices = Choices::of(seed);
            [(); 8].map(|()| choices.below(1000))
        };
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
        assert!(first(7).iter().all(|choice| *choice < 1000));
    }
}
