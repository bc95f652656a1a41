//! `cargo xtask test`: every test of the project, counted.
//!
//! The suites run one after the other, each to its end even when an earlier one failed, because one run should tell
//! everything. A suite counts as good when nothing failed and at least its recorded minimum passed. The last line printed is the
//! sum: `N passed, N failed, N skipped`.

use crate::minimums::Minimums;
use crate::suites::{self, SuiteResult};
use crate::tally::Tally;
use crate::{Outcome, prerequisites, project};
use clap::Args;
use std::path::Path;

#[derive(Debug, Default, Args)]
pub struct Options {
    /// Run only these suites: workspace, doc, durability, python, python-own, javascript, rust-sdk
    pub suites: Vec<String>,
}

pub fn test(options: &Options) -> Outcome {
    let minimums = Minimums::read()?;
    let chosen = suites::choose(&options.suites)?;
    prerequisites::for_building()?;
    announce_missing_data();
    let scratch = tempfile::TempDir::with_prefix("shardlake-xtask-")?;
    let skip_log = scratch.path().join("skipped.txt");

    let mut report = Report::default();
    for suite in chosen {
        println!("\n=== {} ===", suite.name);
        match (suite.run)(&skip_log) {
            Ok(results) => report.add(&minimums, results),
            Err(error) => report.broken(suite.name, &error.to_string()),
        }
    }
    report.noted_skips(&skip_log);
    report.print();
    if report.objections.is_empty() { Ok(()) } else { Err("some tests did not pass".into()) }
}

#[derive(Debug, Default)]
struct Report {
    rows: Vec<SuiteResult>,
    sum: Tally,
    objections: Vec<String>,
    skips: Vec<String>,
}

impl Report {
    fn add(&mut self, minimums: &Minimums, results: Vec<SuiteResult>) {
        for result in results {
            self.objections.extend(minimums.objection(&result.suite, result.tally));
            self.objections.extend(result.objection.clone());
            self.sum.add(result.tally);
            self.rows.push(result);
        }
    }

    /// A suite that could not run at all is one failure, so that the sum cannot look clean.
    fn broken(&mut self, suite: &str, error: &str) {
        self.sum.failed += 1;
        self.objections.push(format!("{suite} did not run: {error}"));
    }

    /// Tests that returned early for want of data passed in the eyes of their runner; here they count as skipped.
    fn noted_skips(&mut self, log: &Path) {
        let noted = std::fs::read_to_string(log).unwrap_or_default();
        self.skips = noted.lines().map(str::to_owned).collect();
        let count = (self.skips.len() as u64).min(self.sum.passed);
        self.sum.passed -= count;
        self.sum.skipped += count;
    }

    fn print(&self) {
        println!("\n=== summary ===");
        for row in &self.rows {
            println!("{:<56} {}", row.suite, row.tally);
        }
        for skip in &self.skips {
            println!("SKIPPED {skip}");
        }
        announce_missing_data();
        for objection in &self.objections {
            println!("NOT GOOD {objection}");
        }
        println!("{}", self.sum);
    }
}

fn announce_missing_data() {
    for name in ["conformance", "data", "sdk-tests"] {
        let (variable, directory) = project::shared_directory(name);
        if !directory.is_dir() {
            let place = directory.display();
            println!(
                "SKIPPED everything that reads the shared '{name}' data: {place} is not there (set {variable})"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_skip_is_not_a_pass() {
        let log = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(log.path(), "a: absent\nb: absent\n").expect("it can be written");
        let mut report = Report { sum: Tally { passed: 5, failed: 0, skipped: 1 }, ..Report::default() };
        report.noted_skips(log.path());
        assert_eq!(report.sum, Tally { passed: 3, failed: 0, skipped: 3 });
    }

    #[test]
    fn a_suite_that_did_not_run_is_a_failure() {
        let mut report = Report::default();
        report.broken("python", "no python3");
        assert_eq!((report.sum.failed, report.objections.len()), (1, 1));
    }
}
