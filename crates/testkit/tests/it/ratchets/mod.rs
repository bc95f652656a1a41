//! Ratchets: numbers of the whole repository that may improve and not get worse, with their limits
//! in one data file.
//!
//! `limits.toml` next to this file holds a table for each ratchet and a line for each crate,
//! document or type. A test compares every line with the measured number. `UPDATE=1` writes the
//! file anew and only tightens it: each limit becomes the better one of the recorded and the
//! measured number. A looser limit is written into the file by hand, with the reason in the commit.
//!
//! | module | measures |
//! |---|---|
//! | `sources` | the files of each crate, split into code, comments and tests |
//! | `circles` | files and modules that import one another in a circle |
//! | `spread` | files with an `impl` of one type, tuple parameters, lengths of files and functions |
//! | `prose` | words of the dialect that the house style replaces |
//! | `weight` | assertions and the crate's own tests, by lines of code |
//! | `counters` | constructions that are to disappear |
//! | `walks` | files that a request passes, from `docs/walks` |
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod circles;
mod counters;
mod prose;
mod sources;
mod spread;
mod walks;
mod weight;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sources::Sources;

use crate::tidy::{expect_no_findings, read, root};

const LIMITS: &str = "crates/testkit/tests/it/ratchets/limits.toml";

const HEADER: &str = "\
# Limits of the ratchets: numbers that may improve and not get worse (docs/testing.md, section Ratchets).
# UPDATE=1 cargo test -p shardlake-testkit --test it ratchets:: tightens this file and never loosens it.
# A looser limit is written here by hand, with the reason in the commit.
";

/// Which numbers are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// At most the limit: the limit may fall.
    Most,
    /// At least the limit: the limit may rise.
    Least,
}

/// One table of the file, with the numbers measured now.
#[derive(Debug)]
struct Ratchet {
    name: &'static str,
    about: &'static str,
    bound: Bound,
    /// The part of a limit by which a number may miss it: a commit may add a little code without an
    /// assertion, or remove a plain sentence. The limit stays, so commits together may not miss it by
    /// more.
    leeway: f64,
    /// The limit of a line that the file lacks.
    default: f64,
    measured: BTreeMap<String, Measure>,
}

#[derive(Debug, Default)]
struct Measure {
    number: f64,
    /// Where a reader finds the counted things.
    places: String,
}

type Limits = BTreeMap<String, BTreeMap<String, f64>>;

impl Ratchet {
    fn most(name: &'static str, about: &'static str, default: f64) -> Ratchet {
        Ratchet { name, about, bound: Bound::Most, leeway: 0.0, default, measured: BTreeMap::new() }
    }

    fn least(name: &'static str, about: &'static str) -> Ratchet {
        Ratchet { bound: Bound::Least, leeway: 0.05, ..Ratchet::most(name, about, 0.0) }
    }

    fn with_leeway(self, leeway: f64) -> Ratchet {
        Ratchet { leeway, ..self }
    }

    fn add(&mut self, line: &str, number: f64, places: impl Into<String>) {
        self.measured.insert(line.to_owned(), Measure { number, places: places.into() });
    }

    fn is_kept(&self, number: f64, limit: f64) -> bool {
        match self.bound {
            Bound::Most => number <= limit * (1.0 + self.leeway),
            Bound::Least => number >= limit * (1.0 - self.leeway),
        }
    }

    fn better(&self, one: f64, other: f64) -> f64 {
        match self.bound {
            Bound::Most => one.min(other),
            Bound::Least => one.max(other),
        }
    }

    fn findings(&self, limits: &BTreeMap<String, f64>) -> Vec<String> {
        let mut findings = Vec::new();
        for (line, Measure { number, places }) in &self.measured {
            let limit = limits.get(line).copied().unwrap_or(self.default);
            if !self.is_kept(*number, limit) {
                let word = if self.bound == Bound::Most { "at most" } else { "at least" };
                findings
                    .push(format!("[{}] {line:?}: {number}, {word} {limit} allowed. {places}", self.name));
            }
        }
        findings
    }

    /// The better one of the recorded and the measured number; lines that only repeat the default
    /// are left out.
    fn tightened(&self, limits: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
        let lines = self.measured.iter().map(|(line, measure)| {
            let limit = limits.get(line).copied().unwrap_or(self.default);
            (line.clone(), self.better(measure.number, limit))
        });
        lines.filter(|(_, limit)| *limit != self.default).collect()
    }
}

/// Every ratchet with the numbers of the files as they are.
fn measured(sources: &Sources) -> Vec<Ratchet> {
    let mut ratchets = circles::measure(sources);
    ratchets.extend(spread::measure(sources));
    ratchets.extend(prose::measure(sources));
    ratchets.extend(weight::measure(sources));
    ratchets.push(counters::measure(sources));
    ratchets.push(walks::measure());
    ratchets
}

fn parse(text: &str) -> Limits {
    toml::from_str(text).unwrap_or_else(|error| panic!("{LIMITS}: {error}"))
}

fn written(ratchets: &[Ratchet], limits: &Limits) -> String {
    let mut text = HEADER.to_owned();
    for ratchet in ratchets {
        write!(text, "\n# {}\n[{}]\n", ratchet.about, ratchet.name).unwrap();
        let recorded = limits.get(ratchet.name).cloned().unwrap_or_default();
        for (line, limit) in ratchet.tightened(&recorded) {
            writeln!(text, "{line:?} = {limit}").unwrap();
        }
    }
    text
}

#[test]
fn no_number_gets_worse() {
    let ratchets = measured(&Sources::read());
    let mut limits = parse(&read(LIMITS));
    if std::env::var_os("UPDATE").is_some() {
        let text = written(&ratchets, &limits);
        std::fs::write(root().join(LIMITS), &text).unwrap();
        limits = parse(&text);
    }
    let none = BTreeMap::new();
    let mut findings: Vec<String> = ratchets
        .iter()
        .flat_map(|ratchet| ratchet.findings(limits.get(ratchet.name).unwrap_or(&none)))
        .collect();
    let is_known = |name: &String| ratchets.iter().any(|ratchet| ratchet.name == *name);
    findings
        .extend(limits.keys().filter(|name| !is_known(name)).map(|name| format!("[{name}] is no ratchet")));
    let rule = format!(
        "numbers beyond their limits; a looser limit is written into {LIMITS} by hand, with the reason in the commit"
    );
    expect_no_findings(&rule, &findings);
}

#[test]
fn updating_only_tightens() {
    let mut most = Ratchet::most("most", "", 5.0);
    most.add("worse", 9.0, "here");
    most.add("better", 6.0, "");
    most.add("ordinary", 4.0, "");
    let limits: BTreeMap<String, f64> =
        [("worse", 8.0), ("better", 8.0), ("gone", 7.0)].map(|(line, limit)| (line.to_owned(), limit)).into();
    let findings = most.findings(&limits);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("9, at most 8 allowed. here"), "{findings:?}");
    let tightened = most.tightened(&limits);
    assert_eq!(format!("{tightened:?}"), r#"{"better": 6.0, "ordinary": 4.0, "worse": 8.0}"#);

    let mut least = Ratchet::least("least", "");
    least.add("worse", 1.5, "");
    least.add("better", 3.0, "");
    least.add("near", 3.9, "");
    least.add("new", 0.0, "");
    let limits: BTreeMap<String, f64> =
        [("worse", 2.0), ("better", 2.0), ("near", 4.0)].map(|(line, limit)| (line.to_owned(), limit)).into();
    assert_eq!(least.findings(&limits).len(), 1);
    assert_eq!(format!("{:?}", least.tightened(&limits)), r#"{"better": 3.0, "near": 4.0, "worse": 2.0}"#);

    let limits = Limits::from([("least".to_owned(), limits)]);
    let text = written(&[least], &limits);
    assert_eq!(parse(&text)["least"]["worse"], 2.0, "{text}");
}
