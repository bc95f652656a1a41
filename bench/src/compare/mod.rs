//! `cargo xtask bench compare REVISION`: the cost or gain of a change, in processor time of the
//! server per operation. `cargo xtask bench guard`: the same with the parent commit, failing where
//! an operation got more than 5 % more expensive.
//!
//! Two builds serve the same items at the same time, and only one of them is driven at any time.
//! They alternate several times within every round, each as often first as the other. A ratio
//! compares the time slices of one round; the table gives the median of these ratios and their
//! range, so that a busy machine shows as a wide range and not as a verdict.
//!
//! With a limit (`--worse-percent-max`) an operation is *worse* where the median is above the limit
//! beyond its spread (`ratios.rs`). Where the spread may be the reason, the operation is measured
//! in as many rounds again. A result that is still doubtful is reported and does not fail.

mod ratios;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::cases::{self, Case};
use crate::contender::{self, Contender, Setup};
use crate::load::Measured;
use crate::publish::publish;
use crate::{CompareOptions, Outcome, disk, report};
pub use ratios::Ratios;
use ratios::Verdict;

const GUARD_PERCENT_MAX: f64 = 5.0;
/// Time slices of each build in a round.
const SLICES: usize = 4;

/// A case, with the results of the base and of this build, round by round.
struct Compared {
    case: Case,
    base: Vec<Measured>,
    this: Vec<Measured>,
}

pub fn guard(options: &CompareOptions) -> Outcome {
    let percent_max = options.worse_percent_max.unwrap_or(GUARD_PERCENT_MAX);
    run(&CompareOptions { worse_percent_max: Some(percent_max), ..options.clone() })
}

pub fn run(options: &CompareOptions) -> Outcome {
    let machine = report::machine();
    let mut compared = measure(options)?;
    let (percent_max, disk) = (options.worse_percent_max, disk(options)?);
    let mut text = format!(
        "Machine: {machine}. {} rounds of {} s, both builds in each; {} items.\n\n{}",
        options.rounds,
        options.seconds,
        options.items,
        table(&compared)
    );
    if let Some((base, this)) = disk {
        writeln!(
            text,
            "\nDisk bytes ÷ JSON bytes at rest, after {} creates and overwrites: base {base:.2}, this {this:.2}.",
            options.disk_items
        )?;
    }
    publish(options.publish.as_ref(), &text)?;
    let Some(percent_max) = percent_max else { return Ok(()) };
    compared.retain(|one| one.ratios().verdict(percent_max) != Verdict::Fine);
    let is_worse = |one: &&Compared| one.ratios().verdict(percent_max) == Verdict::Worse;
    let (mut worse, doubtful): (Vec<&str>, Vec<&str>) = (
        compared.iter().filter(is_worse).map(|one| one.case.name).collect(),
        compared.iter().filter(|one| !is_worse(one)).map(|one| one.case.name).collect(),
    );
    if !doubtful.is_empty() {
        eprintln!("above {percent_max} %, but within the spread: {}", doubtful.join(", "));
    }
    worse.extend(disk.filter(|(base, this)| this / base > 1.0 + percent_max / 100.0).map(|_| "disk bytes"));
    match worse.is_empty() {
        true => Ok(()),
        false => Err(format!("worse by more than {percent_max} %: {}", worse.join(", ")).into()),
    }
}

fn measure(options: &CompareOptions) -> Outcome<Vec<Compared>> {
    let start = |binary: &Path| {
        Contender::start(&Setup { binary: binary.to_owned(), durability: "sync", items: options.items })
    };
    let contenders = [start(&options.base)?, start(&options.server)?];
    let compared = |case| Compared { case, base: Vec::new(), this: Vec::new() };
    let mut all: Vec<Compared> =
        cases::all(&contenders[0].server.client(), options.items).into_iter().map(compared).collect();
    all.retain(|one| options.is_asked_for(one.case.name));
    let time = Duration::from_secs(options.seconds);
    for round in 0..options.rounds {
        all.iter_mut().try_for_each(|one| one.measure(&contenders, round, time))?;
        eprintln!("round {} of {} done", round + 1, options.rounds);
    }
    let Some(percent_max) = options.worse_percent_max else { return Ok(all) };
    for one in all.iter_mut().filter(|one| one.ratios().verdict(percent_max) == Verdict::Doubtful) {
        eprintln!("again, because the spread is wide: {}", one.case.name);
        for round in options.rounds..2 * options.rounds {
            one.measure(&contenders, round, time)?;
        }
    }
    Ok(all)
}

/// Disk bytes by JSON bytes of the base and of this build.
fn disk(options: &CompareOptions) -> Outcome<Option<(f64, f64)>> {
    if options.disk_items == 0 || !options.is_asked_for("disk bytes") {
        return Ok(None);
    }
    let of = |binary| disk::measure(binary, options.disk_items);
    Ok(Some((of(&options.base)?, of(&options.server)?)))
}

impl CompareOptions {
    fn is_asked_for(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

impl Compared {
    fn measure(&mut self, [base, this]: &[Contender; 2], round: usize, time: Duration) -> Outcome {
        let (mut of_base, mut of_this) = (Vec::new(), Vec::new());
        for slice in 0..SLICES {
            let drive = |contender: &Contender| {
                let (turn, connections) = (round * SLICES + slice, self.case.connections);
                contender::drive(&contender.server, &self.case, turn, connections, time / SLICES as u32)
            };
            if (round + slice).is_multiple_of(2) {
                of_base.push(drive(base)?);
                of_this.push(drive(this)?);
            } else {
                of_this.push(drive(this)?);
                of_base.push(drive(base)?);
            }
        }
        assert_eq!(of_base.len(), of_this.len(), "builds are compared in pairs of slices");
        self.base.push(joined(&of_base));
        self.this.push(joined(&of_this));
        Ok(())
    }

    /// Processor time of this build by that of the base in the same round.
    fn ratios(&self) -> Ratios {
        assert_eq!(self.base.len(), self.this.len(), "builds are compared in pairs of rounds");
        Ratios::new(self.base.iter().zip(&self.this).map(|(base, this)| this.cpu_us / base.cpu_us.max(1e-9)))
    }
}

/// Joined result of equally long time slices of a round.
fn joined(turns: &[Measured]) -> Measured {
    assert!(!turns.is_empty(), "a joined result has a slice");
    let speeds: f64 = turns.iter().map(|turn| turn.per_second).sum();
    let cpu_us = turns.iter().map(|turn| turn.cpu_us * turn.per_second).sum::<f64>() / speeds.max(1e-9);
    Measured { per_second: speeds / turns.len() as f64, cpu_us, ..report::median(turns) }
}

fn table(all: &[Compared]) -> String {
    let mut out = String::from(
        "| operation | connections | CPU µs, base | CPU µs, this | this ÷ base | range | ops/s, base | ops/s, this |\n|---|---:|---:|---:|---:|---|---:|---:|\n",
    );
    for one in all {
        let (base, this, ratios) = (report::median(&one.base), report::median(&one.this), one.ratios());
        writeln!(
            out,
            "| {} | {} | {:.1} | {:.1} | {:.2} | {:.2}–{:.2} | {:.0} | {:.0} |",
            one.case.name,
            one.case.connections,
            base.cpu_us,
            this.cpu_us,
            ratios.median(),
            ratios.least(),
            ratios.most(),
            base.per_second,
            this.per_second,
        )
        .expect("a string takes any text");
    }
    out
}
