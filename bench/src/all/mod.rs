//! `cargo xtask bench all --base REVISION`: every figure that has a goal, from one commit, with its
//! earlier value and the spread of its rounds.
//!
//! Both builds and the contestants for comparison alternate within every round. Each part has a
//! file of its own: `warm.rs` (reads, creates, patches and queries against the ideal handler and
//! PostgreSQL), `latency.rs` (at half of the maximum load), `scripts.rs`, `cores.rs`, `large.rs`
//! (queries over many items, the disk, cold reads), `motion.rs` and `purge.rs`.
//!
//! `--short` measures the same with fewer items and seconds, in some twenty minutes on two cores.

mod cores;
mod large;
mod latency;
mod motion;
mod purge;
mod run;
mod scripts;
mod sheet;
mod warm;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use crate::publish::publish_instead_of;
use crate::{Outcome, postgres, report};
use run::{Build, Run};
use sheet::{BUILDS, Sheet};

#[derive(Debug, Clone, Args)]
pub struct AllOptions {
    /// The build of the server
    #[arg(long)]
    server: PathBuf,
    /// The build that it is compared with
    #[arg(long)]
    base: Option<PathBuf>,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Items in each of the two containers
    #[arg(long, default_value_t = 100_000)]
    items: u64,
    /// Items of the part with many items
    #[arg(long, default_value_t = 1_000_000)]
    large_items: u64,
    /// Items of which half or all are moved, and items that run out
    #[arg(long, default_value_t = 100_000)]
    moved_items: u64,
    /// Seconds of 1, and a fifth of the items that are moved or run out
    #[arg(long, conflicts_with_all = ["seconds", "moved_items"])]
    short: bool,
    /// Only these parts: warm, scripts, cores, large, motion, purge
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write the result to this page
    #[arg(long)]
    publish: Option<PathBuf>,
}

/// Benchmarks whose figures are among those of `all`.
const MEASURED_ANEW: [&str; 5] = ["point", "query", "script", "partitions", "ttl"];

type Part = (&'static str, fn(&Run, &mut Sheet) -> Outcome);

const PARTS: [Part; 6] = [
    ("warm", warm::measure),
    ("scripts", scripts::measure),
    ("cores", cores::measure),
    ("large", large::measure),
    ("motion", motion::measure),
    ("purge", purge::measure),
];

pub fn run(options: &AllOptions) -> Outcome {
    let machine = report::machine();
    let run = run_of(options);
    let mut sheet = Sheet::default();
    let started = Instant::now();
    for (name, measure) in PARTS {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            measure(&run, &mut sheet)?;
            eprintln!("{name} done after {:.0} s", started.elapsed().as_secs_f64());
        }
    }
    let text = format!(
        "Machine: {machine}. {} rounds of {} s, in which all contestants take turns; {} items of 1 KB in each of two containers, {} where \
         there are many. Before: {}. Client and server share the cores. {} Total time: {:.0} s.\n\n{}",
        run.rounds,
        run.seconds,
        run.items,
        run.large_items,
        options.base.as_ref().map_or("not measured".into(), |base| file_name(base)),
        postgres::description(),
        started.elapsed().as_secs_f64(),
        sheet.text()
    );
    publish_instead_of(&MEASURED_ANEW, options.publish.as_ref(), &text)
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn run_of(options: &AllOptions) -> Run {
    let [before, after] = BUILDS;
    let base = options.base.clone().map(|binary| Build { name: before, binary });
    let this = Build { name: after, binary: options.server.clone() };
    Run {
        builds: base.into_iter().chain([this]).collect(),
        rounds: options.rounds,
        seconds: if options.short { 1 } else { options.seconds },
        items: options.items,
        large_items: options.large_items,
        moved_items: if options.short { options.moved_items / 5 } else { options.moved_items },
    }
}
